"""What the benchmarks share: an installation, a load, an independent reader, and the report."""
