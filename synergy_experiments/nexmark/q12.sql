-- Bids of a person in each 10 s, by event time; the benchmark has processing time.
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
