"""Ways in: foreign payload → events."""
