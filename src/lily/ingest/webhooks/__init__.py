"""Sources that report incidents by webhook: one file each, listed in `catalogue` (docs/incidents.md)."""
