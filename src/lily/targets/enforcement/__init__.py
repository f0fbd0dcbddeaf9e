"""Protection in PostgreSQL: what rules say about columns, made true with the database's own means.

Denied columns lose their column privileges. Masked ones are shown by a view of the same name, in a schema
that comes before the table's own in search paths, while the column itself is revoked (ADR 26).
"""
