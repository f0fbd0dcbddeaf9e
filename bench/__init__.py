"""The benchmarks: `./lily bench NAME` runs the module of that name; what they share is in `kit`."""
