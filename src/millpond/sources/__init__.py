"""Where data comes from: what a stream takes is logged in order (`intake`), found (`files`) or landed (`landing`,
`ingest`), and read into the stream's columns (`read`, one file per format behind it).

How a format is read may be changed here alone, as long as the same item still gives the same rows and rejections. The
lines of the intake log and the canonical types (`carriers`) are used by the engine and by ponds on disk: take care.
"""
