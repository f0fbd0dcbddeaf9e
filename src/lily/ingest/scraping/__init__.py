"""Sources that Lily reads by itself: one file per kind, and what a run does with what they find."""
