"""A cell: one database, one prefix of topics, one namespace of the lake, one set of streaming queries."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from lily.domain.errors import InvalidInput
from lily.domain.tenants import SHARED, Cell
from lily.settings import Settings

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


def dedicated_cell(settings: Settings, name: str) -> Cell:
    """What the cell with this name calls its own, beside what the installation itself has."""
    if not _NAME.fullmatch(name) or name == SHARED:
        raise InvalidInput(
            f"cell {name!r} is not a name: up to 40 lower-case letters, digits and '-', a letter first, not "
            f"{SHARED!r}; give another one with --cell",
            cell=name,
        )
    database = urlsplit(settings.database.url.get_secret_value()).path.removeprefix("/")
    plain = name.replace("-", "_")
    return Cell(
        name=name,
        database=f"{database}_cell_{plain}"[:63],
        topic_prefix=f"{settings.kafka.topic_prefix}cell-{name}.",
        lake_namespace=f"{settings.lake.namespace}_cell_{plain}",
    )


def cell_settings(settings: Settings, cell: Cell) -> Settings:
    """The installation's settings with this cell's places instead of the shared ones.

    The lake's catalog stays the shared one: only the namespace differs.
    """
    return settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(update={"topic_prefix": cell.topic_prefix}),
            "database": settings.database.model_copy(
                update={"url": type(settings.database.url)(database_url(settings, cell))}
            ),
            "lake": settings.lake.model_copy(update={"namespace": cell.lake_namespace}),
            "spark": settings.spark.model_copy(
                update={"checkpoints": f"{settings.spark.checkpoints}/cells/{cell.name}"}
            ),
        }
    )


def database_url(settings: Settings, cell: Cell) -> str:
    """The owner's way to the cell's database."""
    url = urlsplit(settings.database.url.get_secret_value())
    return urlunsplit(url._replace(path=f"/{cell.database}"))
