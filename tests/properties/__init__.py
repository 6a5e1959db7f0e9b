"""Property tests: the engine (without a JVM) against the oracle, and answers that must not depend on how they came.

`streams`, `queries` and `selections` draw random streams, window queries and row queries, `harness` runs a pond over
them. A new kind of query needs `queries` or `selections` only.
"""
