"""The records that could not be applied: listed, and handed out again as they came."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from lily.repositories.postgres.queries import load

_SQL = load("dead_letters.sql")
_PAGE = 500


@dataclass(frozen=True)
class Selection:
    """Which dead letters; an empty text selects all."""

    tenant: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Record:
    """A record as it was on the log."""

    seq: int
    topic: str
    key: bytes | None
    payload: bytes
    headers: list[tuple[str, str | bytes | None]]


def list_dead_letters(
    url: str, selection: Selection, most: int, *, with_replayed: bool
) -> list[dict[str, Any]]:
    wanted = vars(selection) | {"most": most, "all": with_replayed}
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(_SQL["list_dead_letters"], wanted).fetchall()


def pages_for_replay(url: str, selection: Selection) -> Iterator[Sequence[Record]]:
    """Pages of records not replayed yet, each marked as replayed when the next one is asked for."""
    after = 0
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            wanted = vars(selection) | {"after": after, "most": _PAGE}
            rows = connection.execute(_SQL["read_for_replay"], wanted)
            page = [_record(*row) for row in rows]
            if not page:
                return
            yield page
            connection.execute(_SQL["mark_replayed"], {"seqs": [record.seq for record in page]})
            after = page[-1].seq


def _record(seq: int, topic: str, key: bytes | None, payload: bytes, headers: list[dict[str, str]]) -> Record:
    return Record(seq, topic, key, payload, _headers(headers))


def _headers(kept: list[dict[str, str]]) -> list[tuple[str, str | bytes | None]]:
    return [(header["key"], b64decode(header.get("value", ""))) for header in kept]
