-- Pass through: what a row costs.
SELECT auction, bidder, price, time AS dateTime, extra
FROM bid
