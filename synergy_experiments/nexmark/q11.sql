-- User sessions: bids of a person without a pause of 10 s.
SELECT B.bidder, count(*) AS bid_count,
    SESSION_START(B.time, INTERVAL '10' SECOND) AS starttime, SESSION_END(B.time, INTERVAL '10' SECOND) AS endtime
FROM bid B
GROUP BY B.bidder, SESSION(B.time, INTERVAL '10' SECOND)
