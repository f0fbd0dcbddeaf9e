"""The REST way in: the routes that write."""
