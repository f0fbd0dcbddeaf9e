"""The real Kafka and PostgreSQL that `lily up` starts when none are configured; known to `apps` alone."""
