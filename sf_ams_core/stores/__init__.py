"""The truth: one SQL database, the same statements on SQLite and PostgreSQL.

`schema` draws the tables, `database` opens and migrates them and hands out transactions; the other modules hold
every query there is, one module a noun. Each takes a `Reader` or a `Writer`, which are bound to one scope.
"""
