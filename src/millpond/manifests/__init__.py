"""Manifests and publish records: what an epoch is to do and what it has done. They are on disk: take care."""
