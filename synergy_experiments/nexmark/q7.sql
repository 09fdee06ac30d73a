-- Highest bid of each 10 s.
SELECT B.auction, B.price, B.bidder, B.time AS dateTime, B.extra
FROM bid B
JOIN (
    SELECT max(price) AS maxprice, window_end AS dateTime
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(time), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) B1 ON B.price = B1.maxprice
WHERE B.time BETWEEN B1.dateTime - INTERVAL '10' SECOND AND B1.dateTime
