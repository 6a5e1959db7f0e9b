"""Standing row queries (`python -m bench.psoup rate|invoke|register|composite|all`), one JSON object a line per case.

`workload` makes rows and queries, `rate`, `invoke`, `register` and `composite` are one part each; `kernel`, `stream`,
`baselines` and `load` are what those run in processes of their own. A part may be changed without the others.
"""
