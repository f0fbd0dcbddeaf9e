"""`lily dlq`: what was refused and why, and sending it again after the cause is mended."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lily.apps.commands.options import DataDir, say, settings_of

dlq = typer.Typer(help="Dead letters: records that could not be applied.", no_args_is_help=True)

Tenant = Annotated[str, typer.Option(help="Only this tenant's.")]
Reason = Annotated[str, typer.Option(help="Only those refused for this reason.")]


@dlq.command("list")
def list_letters(
    data_dir: DataDir,
    tenant: Tenant = "",
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest first.")] = 20,
    replayed: Annotated[bool, typer.Option("--replayed", help="Also those sent again already.")] = False,
) -> None:
    """One JSON object per line: where it was on the log, whose it is, why it was refused."""
    from lily.repositories.postgres.dead_letters import Selection, list_dead_letters  # slow to import

    url = settings_of(data_dir).database.url.get_secret_value()
    found = list_dead_letters(url, Selection(tenant, reason), limit, with_replayed=replayed)
    for letter in found:
        print(json.dumps(letter, default=str))
    if not found:
        say("No dead letters.")


@dlq.command()
def replay(data_dir: DataDir, tenant: Tenant = "", reason: Reason = "") -> None:
    """Append the records to their topics again, as they came; one that is still unfit comes back."""
    from lily.log.replays import append_again  # slow to import
    from lily.repositories.postgres.dead_letters import Selection, pages_for_replay

    settings = settings_of(data_dir)
    url = settings.database.url.get_secret_value()
    sent = 0
    for page in pages_for_replay(url, Selection(tenant, reason)):
        append_again(settings.kafka, [(r.topic, r.key, r.payload, r.headers) for r in page])
        sent += len(page)
    say(f"Sent {sent} record{'' if sent == 1 else 's'} again.")
