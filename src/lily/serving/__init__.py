"""Ways to ask."""
