"""What Lily remembers: PostgreSQL (now) and Iceberg (everything that ever was)."""
