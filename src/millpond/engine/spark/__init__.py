"""Spark as the executor: its session, its JVM, and the daemon of its Python workers."""
