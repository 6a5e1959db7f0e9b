"""The engine: epochs from manifest to published answers, the same functions with Spark and without.

`records` are the durable words between driver and workers; `mapping`, `advance`, `merging` are pure steps of an epoch;
`executors` run them; `epoch` commits and publishes; `admission` decides what the next epoch takes in. `soup` matches
the rows of a map task with all row queries of their stream.
"""
