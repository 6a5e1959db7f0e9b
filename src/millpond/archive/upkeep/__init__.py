"""Upkeep of archives: copies are made up, old files removed, what lies on disk is checked and backed up."""
