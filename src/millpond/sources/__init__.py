"""Where data comes from: what a stream takes is logged in order (`intake_log`), found (`files`) or landed (`landing`,
`ingest`), and read into the stream's columns (`formats`). `tables` reads tables.

The lines of the intake log and the canonical types (`formats.carriers`) are used by the engine and by ponds on disk:
take care.
"""
