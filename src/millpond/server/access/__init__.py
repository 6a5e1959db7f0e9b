"""Who may do what, and how much: tokens and roles, permissions of statements, owners of queries, limits.

What a refusal is called reaches users; everything else may be changed without looking elsewhere.
"""
