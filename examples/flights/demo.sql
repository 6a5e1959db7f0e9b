-- Two months of flights out of New York, as their landings were reported.
--
--     millpond run examples/flights/demo.sql        (from the folder of the project)
--     make demo                                     (the same, live to watch)
--
-- A report arrives when a flight lands and counts at the time it departed, so a short hop overtakes everything that left
-- hours before it: 89 % of the rows come out of order, by up to 10.8 hours.

-- Nearly every flight has landed four hours after it left. Waiting eleven hours would make every first answer final, for the
-- sake of the flights to Hawaii; with four, answers come seven hours sooner, and the windows that a later landing belongs to
-- are answered once more, with the next revision.
CREATE STREAM landings (
    departed  TIMESTAMP,
    landed    TIMESTAMP,
    origin    TEXT,
    dest      TEXT,
    carrier   TEXT,
    tailnum   TEXT,
    flight    INTEGER,
    dep_delay INTEGER,
    arr_delay INTEGER,
    air_time  INTEGER,
    distance  INTEGER
) WITH (
    source = 'files', path = 'examples/flights/landings/*.parquet',
    event_time = 'departed', lateness = '4 hours', late = 'revise'
);

-- What each airport does: its last hour, every five minutes. The stream runs from the moment it is declared, and a query
-- by default answers for the windows still open when it comes; since = 'start' asks for those before it too.
CREATE QUERY airports WITH (since = 'start') AS
SELECT origin, count(*) AS departures, avg(dep_delay) AS delay
FROM landings [RANGE 1 HOUR SLIDE 5 MINUTES]
GROUP BY origin;

-- An alert where an airport backs up. It needs the same five-minute panes as the query above, so it costs next to nothing.
CREATE QUERY backing_up WITH (since = 'start') AS
SELECT origin, count(*) AS departures, avg(dep_delay) AS delay, max(dep_delay) AS worst
FROM landings [RANGE 1 HOUR SLIDE 5 MINUTES]
GROUP BY origin
HAVING count(*) >= 10 AND avg(dep_delay) > 90;

-- An uneven window: an hour is not a multiple of forty minutes.
CREATE QUERY network WITH (since = 'start') AS
SELECT count(*) AS departures, count(DISTINCT dest) AS cities, sum(distance) AS miles
FROM landings [RANGE 60 MINUTES SLIDE 40 MINUTES];

-- Take in everything that lies there, then say that nothing follows: every window closes.
DRAIN FINAL;

-- Where and when an airport was backed up most
SELECT window_end, origin, departures, delay, worst, revision
FROM backing_up ORDER BY delay DESC, window_end, origin LIMIT 8;

-- The busiest hours of the network
SELECT window_start, window_end, departures, cities, revision
FROM network ORDER BY departures DESC, window_end LIMIT 5;

-- The answers that were revised most often by late landings
SELECT window_end, origin, departures, delay, revision
FROM airports ORDER BY revision DESC, window_end, origin LIMIT 8;

-- The past is still there: the routes with the longest average delay, from the archive
SELECT origin, dest, count(*) AS flights, avg(arr_delay) AS delay
FROM landings GROUP BY origin, dest HAVING count(*) >= 100 ORDER BY delay DESC, origin, dest LIMIT 5;
