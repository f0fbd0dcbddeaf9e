"""`lily migrate`: bring tables and topics up to date."""

from __future__ import annotations

from lily.apps.commands.options import DataDir, say
from lily.standalone.installations import Installation


def migrate(data_dir: DataDir) -> None:
    """Create or upgrade tables and topics; `up` does it by itself."""
    from lily.apps.migrate import migrate as bring_up_to_date  # slow to import
    from lily.settings import load_settings

    bring_up_to_date(load_settings(Installation.at(data_dir).data_dir))
    say("Tables and topics are up to date.")
