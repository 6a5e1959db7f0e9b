"""DESCRIBE, SHOW COLUMNS and SHOW CREATE: what the catalog says of what there is.

How a stream, a table or a query is written as a statement (`created_as`) may be changed without looking elsewhere: a
stream's statement is read back before anybody sees it.
"""
