"""From a tree to a tree that says the same, or what is meant by it, in simpler words."""
