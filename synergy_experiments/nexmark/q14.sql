-- Calculation: kind of the time of day, and letters counted.
SELECT auction, bidder, 0.908 * price AS price,
    CASE
        WHEN hour(time) >= 8 AND hour(time) <= 18 THEN 'dayTime'
        WHEN hour(time) <= 6 OR hour(time) >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS bidTimeType,
    time AS dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
