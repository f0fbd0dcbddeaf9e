"""`lily migrate`: bring tables and topics up to date."""

from __future__ import annotations

from lily.apps.commands.options import DataDir, say, settings_of


def migrate(data_dir: DataDir) -> None:
    """Create or upgrade tables and topics; `up` does it by itself."""
    from lily.apps.migrate import migrate as bring_up_to_date  # slow to import

    bring_up_to_date(settings_of(data_dir))
    say("Tables and topics are up to date.")
