"""What synopses have in common: what they keep, whose kernels they ask, and what is done with their partials on their
way: which shard keeps a group, and which windows a late row is not in."""
