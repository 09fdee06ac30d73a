-- Winning bids: of each auction the greatest, of these the first..
-- The benchmark's table of them has no end; here it is that of each 10 s, and an auction lasts 8 s at most.
SELECT * EXCLUDE (rownum)
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, id ORDER BY price DESC, bid_time) AS rownum
    FROM TABLE(TUMBLE(TABLE (
        SELECT A.id, A.itemName, A.seller, B.bidder, B.price, B.time AS bid_time, B.extra AS bid_extra
        FROM auction A, bid B
        WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires AND B.time <= A.time + INTERVAL '8' SECOND
    ), DESCRIPTOR(time), INTERVAL '10' SECOND))
)
WHERE rownum <= 1
