"""Every kind of operator is held to the laws of its contract (`millpond.operators.contract`), in process, by property.

`driver` runs epochs over a folder in memory, `kinds` says how cases of each kind are drawn, `test_laws` has the laws.
"""
