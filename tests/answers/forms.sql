-- What DuckDB can do over tables, over streams as tables: a statement a line (test_streams_as_tables.py).
SELECT 1
SELECT 1 AS a, 'x' AS b
VALUES (1, 'a'), (2, 'b')
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)
WITH x AS (SELECT k, sum(v) AS t FROM s GROUP BY k) SELECT * FROM x WHERE t > 3
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n
SELECT * FROM (SELECT k, v FROM s WHERE v > 2) AS x WHERE k = 'a'
SELECT k, v FROM s WHERE v = (SELECT max(v) FROM s)
SELECT k, v FROM s AS x WHERE v = (SELECT max(v) FROM s AS y WHERE y.k = x.k)
SELECT k FROM s UNION SELECT k FROM o
SELECT k FROM s UNION ALL SELECT k FROM o
SELECT k FROM s INTERSECT SELECT k FROM o
SELECT k FROM s EXCEPT SELECT k FROM o
SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM s
SELECT k, v, sum(v) OVER w AS n FROM s WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
SELECT k, v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC, ts) <= 2
SELECT DISTINCT ON (k) k, v FROM s ORDER BY k, v DESC
SELECT s.k, w FROM s JOIN o ON s.k = o.k AND s.ts = o.ts
SELECT s.k, o.w, tt.name FROM s JOIN o ON s.k = o.k JOIN tt ON tt.k = s.k
SELECT s.k, o.w FROM s LEFT JOIN o USING (k)
SELECT k, w FROM s NATURAL JOIN o
SELECT s.k, o.w FROM s CROSS JOIN o
SELECT s.k, o.w FROM s ASOF JOIN o ON s.k = o.k AND s.ts >= o.ts
SELECT s.k FROM s SEMI JOIN o ON s.k = o.k
SELECT s.k FROM s ANTI JOIN o ON s.k = o.k
SELECT s.k, name FROM s FULL JOIN tt ON s.k = tt.k
SELECT s.k, x.n FROM s, LATERAL (SELECT count(*) AS n FROM o WHERE o.k = s.k) AS x
SELECT s.k, x.n FROM s LEFT JOIN LATERAL (SELECT o.w AS n FROM o WHERE o.k = s.k ORDER BY w LIMIT 1) AS x ON true
SELECT k, unnest(l) AS e FROM s
SELECT k, u.e FROM s, unnest(s.l) AS u(e)
SELECT * FROM unnest([1, 2, 3]) AS u(e)
SELECT unnest([1,2,3])
SELECT k, unnest(st) FROM s
SELECT * FROM generate_series(1, 3)
SELECT * FROM range(3) AS r(i)
SELECT r.i, s.k FROM range(2) AS r(i), s
SELECT r.i, s.k FROM s, generate_series(1, s.v) AS r(i)
PIVOT s ON k USING sum(v) GROUP BY ts
PIVOT (SELECT k, v FROM s) ON k IN ('a', 'b') USING sum(v) AS t
SELECT * FROM (PIVOT s ON k USING count(*) GROUP BY v)
SELECT * FROM s PIVOT (sum(v) FOR k IN ('a', 'b') GROUP BY ts)
UNPIVOT (SELECT k, v, length(k) AS n FROM s) ON v, n INTO NAME what VALUE val
SELECT * FROM (SELECT k, v, v + 1 AS n FROM s) UNPIVOT (val FOR what IN (v, n))
SELECT list_transform(l, lambda x: x + 1) AS m FROM s
SELECT list_filter(l, lambda x: x % 2 = 0) AS m FROM s
SELECT list_reduce(l, lambda a, b: a + b) AS m FROM s
SELECT [x * 2 FOR x IN l IF x > 2] AS m FROM s
SELECT j -> 'a' AS a, j ->> 'a' AS b FROM s
SELECT j ->> '$.b[0]' AS b FROM s
SELECT j.a FROM s
SELECT st.a, st.b FROM s
SELECT st.* FROM s
SELECT k FROM s WHERE (k, v) IN (SELECT k, max(v) FROM s GROUP BY k)
SELECT k FROM s WHERE (k, v) IN (('a', 1), ('b', 1))
SELECT k, v, count(*) FROM s GROUP BY GROUPING SETS ((k), (v), ())
SELECT k, v, count(*) FROM s GROUP BY ROLLUP (k, v)
SELECT k, v, count(*), grouping(k, v) FROM s GROUP BY CUBE (k, v)
SELECT k, count(*) FROM s GROUP BY ALL
SELECT k, v FROM s ORDER BY ALL
SELECT k, v FROM s ORDER BY v DESC NULLS LAST, ts LIMIT 3 OFFSET 1
SELECT * EXCLUDE (j, l, st) FROM s
SELECT * REPLACE (v + 1 AS v) FROM s
SELECT * RENAME (v AS vv) FROM s
SELECT COLUMNS('k|v') FROM s
SELECT min(COLUMNS(* EXCLUDE (j, l, st))) FROM s
FROM s
FROM s SELECT k WHERE v > 2
FROM s WHERE v > 2
SELECT q.k, total, name FROM q JOIN tt USING (k)
SELECT s.k, q.total FROM s JOIN q ON q.k = s.k AND s.ts >= q.window_start AND s.ts < q.window_end
SELECT k FROM s WHERE EXISTS (SELECT 1 FROM o WHERE o.k = s.k)
SELECT k FROM s WHERE k IN (SELECT k FROM o)
SELECT k FROM s WHERE k NOT IN (SELECT k FROM o)
SELECT k, v FROM s WHERE v > ALL (SELECT v FROM s WHERE k = 'a')
SELECT k, v FROM s WHERE v = ANY (SELECT v FROM s WHERE k = 'a')
SELECT k, v FROM s WHERE v = ANY ([1, 2])
SELECT ARRAY(SELECT v FROM s ORDER BY ts) AS a
SELECT (SELECT count(*) FROM s) AS n, (SELECT count(*) FROM o) AS m
SELECT s FROM s
SELECT k, list(v ORDER BY ts) FROM s GROUP BY k
SELECT k, list(v) FILTER (v > 1) FROM s GROUP BY k
SELECT string_agg(DISTINCT k, ',' ORDER BY k) FROM s
SELECT k, first(v), last(v) FROM s GROUP BY k
SELECT k, arg_max(v, ts), max_by(v, ts), min(v, 2) FROM s GROUP BY k
SELECT max(v, 3) AS top FROM s
SELECT CASE WHEN v > 2 THEN 'big' ELSE 'small' END AS size, count(*) FROM s GROUP BY 1 ORDER BY 1
SELECT time_bucket(INTERVAL '5 seconds', ts) AS b, count(*) FROM s GROUP BY b ORDER BY b
SELECT date_trunc('minute', ts) AS m, approx_count_distinct(k) FROM s GROUP BY m
SELECT quantile_cont(v, [0.25, 0.5, 0.75]) FROM s
SELECT median(v), mad(v), mode(k) FROM s
SELECT histogram(k) FROM s
SELECT k FROM s WHERE k LIKE 'a%' COLLATE NOCASE
SELECT lag(v) OVER (ORDER BY ts) AS p, v FROM s
SELECT lag(v IGNORE NULLS) OVER (ORDER BY ts) AS p FROM s
SELECT first_value(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3 seconds' PRECEDING AND CURRENT ROW) FROM s
SELECT k, count(*) AS n FROM s GROUP BY k HAVING n > 1 ORDER BY n DESC, k
SELECT k, v AS x, x + 1 AS y FROM s
SELECT 1 + 1 AS two FROM range(1)
SELECT k FROM s UNION ALL BY NAME SELECT w, k FROM o
SELECT a.k, b.v FROM s a, s b WHERE a.k = b.k AND a.ts < b.ts
SELECT a.k, b.v FROM s a JOIN s b ON a.k = b.k AND a.ts < b.ts JOIN o ON o.k = a.k
WITH a AS MATERIALIZED (SELECT * FROM s), b AS (SELECT k, count(*) n FROM a GROUP BY k) SELECT a.k, n FROM a JOIN b USING (k)
WITH RECURSIVE r AS (SELECT k, v FROM s WHERE v = 0 UNION ALL SELECT r.k, r.v + 1 FROM r WHERE r.v < 3) SELECT * FROM r
SELECT struct_pack(a := k, b := v) AS x FROM s
SELECT {'a': k, 'b': v} AS x FROM s
SELECT map([k], [v]) AS m FROM s
SELECT map {k: v} AS m FROM s
SELECT l[1], l[-1], l[1:2] FROM s
SELECT len(l), list_sum(l), list_sort(l, 'DESC') FROM s
SELECT [1, 2, 3] AS x
SELECT v::VARCHAR || k AS t FROM s
SELECT try_cast(k AS INTEGER) AS t FROM s
SELECT regexp_extract(k, '([a-z])', 1) FROM s
SELECT printf('%d', v), format('{}', k) FROM s
SELECT ts::DATE AS d, extract(hour FROM ts), date_part('minute', ts), strftime(ts, '%Y') FROM s
SELECT DISTINCT k FROM s ORDER BY k
SELECT count(DISTINCT k), count(DISTINCT (k, v)) FROM s
SELECT k, v FROM s ORDER BY ts FETCH FIRST 3 ROWS ONLY
SELECT s.* FROM s JOIN o USING (k)
SELECT k, sum(v) FROM s WHERE ts BETWEEN '2024-01-01 00:00:02' AND '2024-01-01 00:00:08' GROUP BY k
SELECT sum(v) FILTER (WHERE k = 'a') FROM s
SELECT any_value(k), count_if(v > 2), bool_or(v > 5) FROM s
SELECT v // 2, v % 3, -v, v ** 2, v & 1, v << 1 FROM s
SELECT k IS DISTINCT FROM 'a' FROM s
SELECT k FROM s WHERE k SIMILAR TO '[ab]'
SELECT k FROM s WHERE v BETWEEN 1 AND 3 AND NOT k = 'b'
SELECT coalesce(w, 0) FROM s LEFT JOIN o ON s.k = o.k AND s.ts = o.ts
SELECT json_extract(j, '$.b') FROM s
SELECT json_group_array(v) FROM s
SELECT * FROM (SELECT k, sum(v) AS t FROM s GROUP BY k) AS x JOIN (SELECT k, max(w) AS m FROM o GROUP BY k) AS y USING (k)
SELECT * FROM s POSITIONAL JOIN o
SELECT rank() OVER (ORDER BY count(*) DESC) AS r, k FROM s GROUP BY k
SELECT k, (SELECT max(w) FROM o WHERE o.k = s.k) AS m FROM s
TABLE s
SELECT a, b FROM s AS x(a, b)
SELECT * FROM (SELECT 1 AS a) AS x, (SELECT 2 AS b) AS y
SELECT k, v FROM s WHERE k = 'a' OR v IN (1, 2) ORDER BY ts, k
SELECT unnest(generate_series(1, 3)) AS i
SELECT list_aggregate(l, 'sum') FROM s
SELECT array_agg(v ORDER BY v DESC) FROM s
SELECT k || '-' || v::TEXT FROM s ORDER BY 1
SELECT max(ts) - min(ts) FROM s
SELECT epoch_ms(ts), age(ts, TIMESTAMP '2020-01-01') FROM s
SELECT if(v > 2, 'a', 'b') FROM s
SELECT nullif(v, 0), ifnull(w, 1) FROM s JOIN o USING (k)
SELECT k GLOB 'a*' FROM s
SELECT 'abc'[1], 'abc'[1:2]
SELECT sum(v) / count(*) AS r, round(avg(v), 2) FROM s
SELECT * FROM (FROM s SELECT k, v) WHERE v > 1
SELECT array_length(l), list_contains(l, 3) FROM s
SELECT k, count(*) OVER () AS n FROM s ORDER BY n, k, ts
SELECT ntile(3) OVER (ORDER BY ts) AS t, v FROM s
SELECT k FROM s WHERE l[1] = 3
SELECT list_distinct(list(k)) FROM s
SELECT date '2024-01-01' + INTERVAL 1 DAY
SELECT TIMESTAMP '2024-01-01 00:00:00' + to_days(3)
SELECT ts AT TIME ZONE 'Europe/Berlin' FROM s LIMIT 1
SELECT x.k, n, w FROM (SELECT k, count(*) AS n FROM s WHERE v > 1 GROUP BY k) AS x LEFT JOIN o ON o.k = x.k
SELECT s.k, o.w FROM s RIGHT JOIN o ON s.k = o.k AND s.v > 3 WHERE o.w > 2
SELECT s.k, o.w FROM s LEFT JOIN o ON s.k = o.k AND s.ts = o.ts WHERE o.w IS NULL AND s.v > 1
SELECT s.k, o.w FROM s FULL JOIN o ON s.k = o.k AND s.ts = o.ts WHERE s.v > 1 OR o.w > 4
SELECT s.k, count(*) AS n FROM s JOIN o ON s.ts < o.ts WHERE s.ts >= '2024-01-01 00:00:03' AND o.ts < TIMESTAMP '2024-01-01 00:00:09' GROUP BY s.k ORDER BY n DESC, s.k
SELECT k, ts FROM s WHERE ts > TIMESTAMP '2024-01-01 00:00:03' AND TIMESTAMP '2024-01-01 00:00:07' >= ts ORDER BY ts
SELECT count(*) FROM s WHERE ts = '2024-01-01 00:00:03'
SELECT count(*) FROM s WHERE ts > '2030-01-01'
SELECT k, row_number() OVER (ORDER BY ts) AS n FROM s WHERE ts BETWEEN '2024-01-01 00:00:02' AND '2024-01-01 00:00:04'
SELECT json_keys(j -> 'b') FROM s
SELECT (j -> 'a') = '3' AS b, (j ->> 'a')::INTEGER + 1 AS c FROM s
SELECT k FROM s WHERE (j ->> 'a') = '3'
SELECT sum((j ->> 'a')::INTEGER) FROM s GROUP BY k
SELECT k, sum(list_sum([x * v FOR x IN l])) FROM s GROUP BY k
SELECT k FROM s WHERE list_filter(l, lambda x: x > v) = []
SELECT st.a, sum(v) FROM s GROUP BY st.a
SELECT * FROM s AS outer_s WHERE EXISTS (FROM o WHERE o.k = outer_s.k AND o.ts = outer_s.ts)
SELECT a.n + b.n FROM (SELECT count(*) AS n FROM s) AS a, (SELECT count(*) AS n FROM o) AS b
(SELECT k FROM s ORDER BY ts LIMIT 2) UNION ALL (SELECT k FROM o ORDER BY ts DESC LIMIT 2)
WITH s AS (SELECT 1 AS k) SELECT k FROM s
WITH x AS (SELECT k FROM s), y AS (SELECT k FROM x WHERE k <> 'a') SELECT x.k FROM x JOIN y USING (k)
SELECT greatest(k, 'b'), least(v, 3) FROM s
SELECT k, v, lead(v) OVER (PARTITION BY k ORDER BY ts) - v AS step FROM s QUALIFY step > 0
SELECT count(*) FROM (SELECT DISTINCT k, v FROM s)
SELECT a.k FROM s AS a WHERE a.v > (SELECT avg(b.v) FROM s AS b WHERE b.k = a.k)
SELECT min(ts), max(ts) FROM (SELECT ts FROM s UNION ALL SELECT ts FROM o)
