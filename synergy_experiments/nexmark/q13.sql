-- Bounded side input: a value of a table for each bid.
SELECT B.auction, B.bidder, B.price, B.time AS dateTime, S.value
FROM bid B
JOIN side_input FOR SYSTEM_TIME AS OF B.time AS S ON mod(B.auction, 100) = S.key
