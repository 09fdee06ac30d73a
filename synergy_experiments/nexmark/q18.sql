-- Last bid of a person for an auction..
-- The benchmark's table of them has no end; here it is that of each 10 s.
SELECT auction, bidder, price, channel, url, at, extra
FROM (
    SELECT *, time AS at,
        ROW_NUMBER() OVER (PARTITION BY window_start, window_end, bidder, auction ORDER BY time DESC) AS rank_number
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(time), INTERVAL '10' SECOND))
)
WHERE rank_number <= 1
