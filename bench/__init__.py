"""Benchmarks: each file prints one JSON object a line on standard output, all else on standard error.

`cases` says what is measured, `baselines` and `subject` run one system each in a process of their own, `agreement`
compares answers, `windows`, `freshness`, `soak`, `clients` and `profile_epoch` are the commands. A case may be added
in `cases` alone; nothing here is imported by the product.
"""
