"""The commands of `./lily`, one file each; `apps.cli` is their table."""
