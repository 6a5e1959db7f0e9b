"""The engine: epochs from manifest to published answers, the same functions with Spark and without.

`control` proposes, runs, commits and publishes epochs; `tasks` are their pure steps; `executors` run these; `intake`
decides what an epoch takes in; `jobs` run beside. `core` is what an open pond consists of, `pond_view` what of it
answers are made from.
"""
