-- One window of each kind over two months of real flights and the weather they flew in.
--
--     millpond run examples/flights/windows.sql        (from the folder of the project)
--
-- docs/windows.md, docs/sessions.md, docs/row-windows.md and docs/cql.md explain the kinds; docs/derived-streams.md the
-- stream made of answers.

CREATE STREAM landings (
    departed TIMESTAMP, landed TIMESTAMP, origin TEXT, dest TEXT, carrier TEXT, tailnum TEXT, flight INTEGER,
    dep_delay INTEGER, arr_delay INTEGER, air_time INTEGER, distance INTEGER
) WITH (source = 'files', path = 'examples/flights/landings/*.parquet', event_time = 'departed', lateness = '4 hours');

CREATE STREAM weather (
    observed TIMESTAMP, origin TEXT, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE
) WITH (source = 'files', path = 'examples/flights/weather.parquet', event_time = 'observed');

-- By time: the last three hours, every hour.
CREATE QUERY sliding WITH (since = 'start') AS
SELECT origin, count(*) AS departures, max(dep_delay) AS worst
FROM landings [RANGE 3 HOURS SLIDE 1 HOUR] GROUP BY origin;

-- Since a landmark: every flight since five in the morning in New York, told every hour until the next morning.
CREATE QUERY so_far WITH (since = 'start') AS
SELECT count(*) AS departures, sum(distance) AS miles
FROM landings [RANGE ALL SINCE '05:00' DAILY ZONE 'America/New_York' SLIDE 1 HOUR];

-- Several windows in one answer: the last hour beside the last six.
CREATE QUERY two_ranges WITH (since = 'start') AS
SELECT origin, count(*) [RANGE 1 HOUR SLIDE 1 HOUR] AS last_hour, count(*) [RANGE 6 HOURS SLIDE 1 HOUR] AS last_six
FROM landings GROUP BY origin;

-- By sessions: the days of work of an aircraft, each until it has stood for eight hours.
CREATE QUERY shifts WITH (since = 'start') AS
SELECT tailnum, count(*) AS flights, sum(distance) AS miles
FROM landings [SESSION 8 HOURS] GROUP BY tailnum;

-- By the calendar: days of New York, one of which has 23 hours.
CREATE QUERY days WITH (since = 'start') AS
SELECT origin, count(*) AS departures
FROM landings [RANGE TUMBLING 1 DAY ZONE 'America/New_York'] GROUP BY origin;

-- By rows: every hundred departures of an airport.
CREATE QUERY hundreds WITH (since = 'start') AS
SELECT origin, count(*) AS departures, sum(dep_delay) AS delay
FROM landings [PARTITION BY origin ROWS 100 SLIDE 100];

-- By tuple: at each departure of an aircraft, how often and how far it has flown within a day.
CREATE QUERY aircraft WITH (since = 'start') AS
SELECT tailnum, count(*) AS flights, sum(distance) AS miles
FROM landings [PARTITION BY tailnum RANGE 1 DAY SLIDE 1 ROW];

-- A relation of CQL: what comes into it is a stream.
CREATE QUERY stranded WITH (since = 'start') AS
SELECT ISTREAM(origin, dest, dep_delay) FROM landings [NOW] WHERE dep_delay > 300;

-- A stream of pairs: each flight with what was observed at its airport within the hour before.
CREATE QUERY took_off WITH (since = 'start') AS
SELECT PAIRS(f.tailnum, f.origin, f.dep_delay, w.observed, w.wind_speed)
FROM landings [NOW] f LEFT JOIN weather [RANGE 1 HOUR OPEN] w ON w.origin = f.origin;

-- A stream of answers, and a window over it: the worst hour of each day.
CREATE STREAM gusts WITH (since = 'start') AS
SELECT origin, max(wind_speed) AS wind, min(visib) AS sight FROM weather [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY origin;

CREATE QUERY stormy WITH (since = 'start') AS
SELECT origin, max(wind) AS wind, min(sight) AS sight FROM gusts [RANGE TUMBLING 1 DAY] GROUP BY origin;

DRAIN FINAL;

SELECT window_end, origin, departures, worst FROM sliding ORDER BY departures DESC, window_end, origin LIMIT 3;
SELECT window_end, departures, miles FROM so_far ORDER BY departures DESC, window_end LIMIT 3;
SELECT window_end, origin, last_hour, last_six FROM two_ranges ORDER BY last_six DESC, window_end, origin LIMIT 3;
SELECT window_start, window_end, tailnum, flights FROM shifts ORDER BY flights DESC, window_end, tailnum LIMIT 3;
SELECT window_start, window_end, origin, departures FROM days ORDER BY departures DESC, window_end, origin LIMIT 3;
SELECT window_end, window_number, origin, delay FROM hundreds ORDER BY delay DESC, window_end, origin LIMIT 3;
SELECT window_end, tailnum, flights, miles FROM aircraft ORDER BY flights DESC, miles DESC, window_end, tailnum LIMIT 3;
SELECT * FROM stranded ORDER BY dep_delay DESC, origin, dest LIMIT 3;
SELECT * FROM took_off ORDER BY wind_speed DESC NULLS LAST, dep_delay DESC, tailnum LIMIT 3;
SELECT window_end, origin, wind, sight FROM stormy ORDER BY wind DESC, window_end, origin LIMIT 3;
