-- Ten greatest bids of an auction..
-- The benchmark's table of them has no end; here it is that of each 10 s.
SELECT * EXCLUDE (rank_number)
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, auction ORDER BY price DESC) AS rank_number
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(time), INTERVAL '10' SECOND))
)
WHERE rank_number <= 10
