-- Currency conversion: dollars to euros.
SELECT auction, bidder, 0.908 * price AS price, time AS dateTime, extra
FROM bid
