"""Changes as they happen, to whoever listens: one reader of the log per process, shared by all."""
