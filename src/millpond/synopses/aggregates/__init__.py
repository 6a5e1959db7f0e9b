"""How aggregates are split: components that are kept per pane and group, and an expression over them.

`splitting` has a split for each function, `statistics` those that keep lists of entries, `weighted` those over samples,
`taken_back` those over streams that take rows back. A new aggregate is an entry there and changes nothing elsewhere.
"""
