"""Iceberg: everything that ever was."""
