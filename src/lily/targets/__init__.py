"""Ways out: what leaves Lily for other systems, one file per kind of target."""
