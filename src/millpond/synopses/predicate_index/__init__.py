"""The predicate index: the conditions of all row queries on a stream, and how blocks of rows are matched with them."""
