"""Property tests: the engine (without a JVM) against the oracle, and answers that must not depend on how they came.

`streams` and `queries` draw random streams and queries, `harness` runs a pond over them. A new kind of query needs
`queries` only.
"""
