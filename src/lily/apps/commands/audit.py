"""`lily audit`: check that nothing was changed, and take it elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from lily.apps.commands.options import DataDir, checked_tenant, say, settings_of
from lily.domain.audit import INSTALLATION, Head
from lily.domain.errors import LilyError
from lily.standalone.files import write_atomically
from lily.standalone.installations import Installation

HEADS_FILE = "audit-heads.json"

audit = typer.Typer(
    help="The audit: who did what, in chains nobody can change unnoticed.", no_args_is_help=True
)


class AuditTampered(LilyError):
    """The audit is not what was recorded."""

    code = "audit_tampered"


@audit.command()
def verify(
    data_dir: DataDir,
    tenant: Annotated[str, typer.Option(help="Only this tenant's chain.")] = "",
    heads: Annotated[
        Path | None,
        typer.Option(
            help="Where the ends seen are remembered; best a place the database's admin cannot write."
        ),
    ] = None,
) -> None:
    """Compute every hash again; exit with 1 when an entry was changed, removed, moved or cut off.

    The ends of the chains are remembered, so that the next run also notices a database that was set back.
    """
    from lily.repositories.postgres.audit_verification import verify_chains  # slow to import

    settings = settings_of(data_dir)
    file = heads or Installation.at(data_dir).data_dir / HEADS_FILE
    seen, entries, broken = _read_heads(file), 0, 0
    url, key = settings.database.url.get_secret_value(), settings.audit.key.get_secret_value()
    for report in verify_chains(url, key, tenant, seen):
        for finding in report.findings:
            print(f"{report.tenant_id}: {finding}")
        if report.is_whole:
            seen[report.tenant_id] = report.head
        entries, broken = entries + report.head.seq, broken + (not report.is_whole)
    _write_heads(file, seen)
    if broken:
        raise AuditTampered(f"{broken} of the audit's chains {'is' if broken == 1 else 'are'} not whole")
    say(f"The audit is whole: {entries} entries.")


@audit.command()
def export(
    data_dir: DataDir,
    tenant: Annotated[str, typer.Option(help="Whose entries; '*' for those of no tenant.")],
    fmt: Annotated[str, typer.Option("--format", help="jsonl or csv.")] = "jsonl",
    since: Annotated[str, typer.Option(help="RFC 3339; from this time on.")] = "",
) -> None:
    """Write all entries of a tenant to standard output, oldest first."""
    from lily.repositories.postgres.audit import AuditFilter, RecordedEntry, read_all  # slow to import
    from lily.serving.exports import ExportFormat, header, lines
    from lily.serving.rest.moments import read_moment

    if fmt not in list(ExportFormat):
        raise typer.BadParameter(f"unknown format {fmt!r}; known: {', '.join(ExportFormat)}")
    chosen = ExportFormat(fmt)
    wanted = AuditFilter(since=read_moment("--since", since) if since else None)
    sys.stdout.write(header(chosen, RecordedEntry._fields))
    url = settings_of(data_dir).database.url.get_secret_value()
    for page in read_all(url, tenant if tenant == INSTALLATION else checked_tenant(tenant), wanted):
        sys.stdout.write(lines(chosen, RecordedEntry._fields, (entry.document() for entry in page)))


def _read_heads(file: Path) -> dict[str, Head]:
    if not file.exists():
        return {}
    return {
        tenant: Head(seq, bytes.fromhex(digest))
        for tenant, (seq, digest) in json.loads(file.read_text()).items()
    }


def _write_heads(file: Path, heads: dict[str, Head]) -> None:
    content = {tenant: [head.seq, head.hash.hex()] for tenant, head in heads.items()}
    write_atomically(file, json.dumps(content, indent=1) + "\n")
