"""Partners of many rows at once, by their keys: the one kernel of joins.

`keys` makes numbers of keys that are equal, or ordered, as DuckDB has the values; `orders` keeps rows sorted by them;
`finding` looks up whose keys are equal and whose value lies in a band, set at a time.
"""
