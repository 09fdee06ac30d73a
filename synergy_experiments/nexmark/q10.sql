-- Log to a file system: rows with the day and the minute that name their file.
SELECT auction, bidder, price, time AS dateTime, extra,
    lpad(CAST(year(time) AS str), 4, '0') || '-' || lpad(CAST(month(time) AS str), 2, '0')
        || '-' || lpad(CAST(day(time) AS str), 2, '0') AS date,
    lpad(CAST(hour(time) AS str), 2, '0') || ':' || lpad(CAST(minute(time) AS str), 2, '0') AS clock
FROM bid
