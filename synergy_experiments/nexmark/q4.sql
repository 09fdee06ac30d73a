-- Average price for a category: of the greatest bids of auctions..
-- The benchmark's average has no end; here it is that of each 10 s, and an auction lasts 8 s at most.
SELECT Q.category, avg(Q.final) AS average
FROM (
    SELECT max(B.price) AS final, A.category, A.id, window_end AS w
    FROM auction A, bid B
    WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires AND B.time <= A.time + INTERVAL '8' SECOND
    GROUP BY A.id, A.category, TUMBLE(time, INTERVAL '10' SECOND)
) AS Q
GROUP BY Q.category, Q.w
