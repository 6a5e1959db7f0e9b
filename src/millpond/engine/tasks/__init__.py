"""What runs inside Spark's tasks: the map step of a split and the merge step of a shard, and their entry points."""
