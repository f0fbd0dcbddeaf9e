"""One streaming query per file."""
