"""Spark: decode → apply → relay → keep history."""
