-- Hot items: the auctions with the most bids of the last 10 s, every 2 s.
WITH bids_of_auctions AS (
    SELECT auction, count(*) AS num, window_start AS starttime, window_end AS endtime
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
)
SELECT A.auction, A.num
FROM bids_of_auctions AS A
JOIN (
    SELECT max(num) AS maxn, starttime, endtime
    FROM bids_of_auctions
    GROUP BY starttime, endtime
) AS M ON A.starttime = M.starttime AND A.endtime = M.endtime AND A.num >= M.maxn
