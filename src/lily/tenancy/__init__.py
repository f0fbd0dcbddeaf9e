"""Which cell a tenant lives in, how much it may use, and how it moves."""
