-- Bids with their auctions, of one category..
-- The benchmark keeps auctions for ever; here a bid is paired with an auction of the 8 s before, as long as one lasts.
SELECT auction, bidder, price, channel, url, B.time AS bid_time, B.extra AS bid_extra,
    itemName, description, initialBid, reserve, A.time AS auction_time, expires, seller, category,
    A.extra AS auction_extra
FROM bid AS B
JOIN auction AS A ON B.auction = A.id AND B.time BETWEEN A.time AND A.time + INTERVAL '8' SECOND
WHERE A.category = 10
