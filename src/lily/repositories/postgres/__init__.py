"""PostgreSQL: the state of every asset now, and the ledger that makes each event count once."""
