"""Answers: of standing queries as tables, logs and subscriptions; of INVOKE; of ad hoc SELECTs over the archive.

Readers pin a published epoch and so never see half of one. Nothing here changes the pond.
"""
