"""Lily, a real-time metadata platform. One line per folder, in the order facts flow:

apps          the processes, how their parts are wired, and the command line
ingest        ways in: foreign payload → events
log           topics, envelope, Kafka
pipeline      Spark: decode → apply → propagate → relay → keep history
repositories  what Lily remembers: PostgreSQL (now) and Iceberg (everything that ever was)
serving       ways to ask: REST, gRPC, WebSocket, and OPA for engines
targets       ways out: messages delivered, rules enforced
tenancy       which cell a tenant lives in, what it may use, how it moves
access        who is asking and what they may do
standalone    the real Kafka and PostgreSQL that `lily up` starts when none are configured
domain        what metadata means; standard library only
settings, telemetry
"""
