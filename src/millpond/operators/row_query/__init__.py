"""Row queries: an epoch's rows are matched with the predicate index ahead of any question."""
