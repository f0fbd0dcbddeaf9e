"""Applies one batch of statements about lineage and tags in one transaction: the only writer of edges."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from typing_extensions import override

from lily.domain.assets import Lane
from lily.repositories.postgres.applier import PLANS, Applier
from lily.repositories.postgres.queries import load

_SQL = load("lineage_apply.sql")
_MERGES = (
    "record_events",
    "merge_edge_assertions",
    "merge_edges",
    "merge_tag_assertions",
    "merge_opt_outs",
    "merge_definitions",
    "merge_incidents",
)


class LineageApplier(Applier):
    """One connection to PostgreSQL that applies the batches of the lineage query."""

    staging: ClassVar[str] = "staged_statements"
    preparations: ClassVar[tuple[str, ...]] = (*PLANS, _SQL["create_staging"], _SQL["create_applying"])

    @override
    def _copy(self, cursor: Any, staged: pa.Table) -> None:
        cursor.adbc_ingest(self.staging, staged, mode="append", temporary=True)

    @override
    def _merge(self, cursor: Any, lane: Lane) -> None:
        for name in _MERGES:
            cursor.execute(_SQL[name])
