"""The log all writes pass through: topics, envelope, Kafka."""
