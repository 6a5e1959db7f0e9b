"""Plans of scans of the past, made in the driver: which files, row groups, copies and summaries, and how much of them.

A plain scan is a reduced one that keeps everything. `scans` decides and divides the work, `sections` chooses among the
versions of a file, `scan_tasks` is what goes to the tasks, where `archive.reading` reads it.
"""
