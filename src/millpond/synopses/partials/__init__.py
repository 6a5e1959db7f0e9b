"""What is done with pane partials on their way: which shard keeps a group, and which windows a late row is not in."""
