"""Answers: of standing queries as tables, logs and subscriptions; of INVOKE; of ad hoc SELECTs over the archive.

Readers pin a published epoch and so never see half of one. Nothing here changes the pond. Row queries are answered by
`selection` from hot rows (`hot`), row sets (`matching`), aggregate trees (`trees`) and joined pairs (`joins`,
`pair_caches`); `ready` holds what is kept, `materialise` decides what that is. All of it is a cache of the archive.
"""
