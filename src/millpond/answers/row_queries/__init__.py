"""Answers of row queries, from hot rows (`hot`), row sets (`matched_rows`), aggregate trees (`trees`), pairs (`joins`).

`ready` holds what is kept, `materialise` decides what that is. All of it is a cache of the archive and may be dropped.
"""
