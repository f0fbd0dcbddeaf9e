"""Scraping: what a source finds in a foreign system, and the jobs that send it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: How often a source is read again without being asked.
REFRESH = timedelta(hours=24)
#: How long a job waits before each further attempt; after the last one it has failed.
RETRY_SECONDS = (5, 30, 120, 600)
MAX_ATTEMPTS = len(RETRY_SECONDS) + 1


class Mode(StrEnum):
    """Everything that is found, or only what is different from what was last sent."""

    FULL = "full"
    INCREMENTAL = "incremental"


class JobState(StrEnum):
    """A job that failed and is tried again is queued; `failed` is for good."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ScrapingJob:
    """One order to read a source; it is an event on `scraping-job-events`."""

    tenant_id: str
    job_id: str
    connector_id: str
    mode: Mode
    requested_by: str
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Target:
    """The system to read: a connector's configuration and what it logs in with.

    `reach` answers the address to connect to for a host and port, and raises where Lily does not connect.
    """

    connector_id: str
    config: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)
    reach: Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class FoundAsset:
    """Something that is there; `parents` are the external ids of what contains it, the nearest last."""

    external_id: str
    asset_type: str
    name: str
    parents: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True, slots=True)
class FoundEdge:
    """That one asset is made from another; both are external ids of assets found by the same run."""

    source: str
    target: str
    is_indirect: bool = False
    subtype: str = "IDENTITY"


@dataclass(frozen=True, slots=True)
class FoundLineage:
    """Where an asset comes from. While `basis` is the same, so are the edges, and they are not derived."""

    external_id: str
    basis: str
    derive: Callable[[], Sequence[FoundEdge]]


Found = FoundAsset | FoundLineage
#: The subtype of an edge that is there because it was not understood what is made of what.
UNKNOWN = "UNKNOWN"
