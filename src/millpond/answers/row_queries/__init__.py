"""Answers of row queries, from hot rows (`hot`), row sets (`matching`), aggregate trees (`trees`) and pairs (`joins`).

`ready` holds what is kept, `materialise` decides what that is. All of it is a cache of the archive and may be dropped.
"""
