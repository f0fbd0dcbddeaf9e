"""The topics of the log, and what each is for; `lily migrate` creates them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lily.domain.assets import Lane

DAY_MS = 24 * 3600 * 1000

#: The largest record the broker takes. Larger than what Lily accepts, so that an oversized event ends as a
#: dead letter with its reason instead of vanishing at the producer.
MAX_RECORD_BYTES = 16 * 1024 * 1024


class Topic(StrEnum):
    SCRAPING_JOBS = "scraping-job-events"
    STRUCTURAL_ASSETS = "asset-ingestion-events"
    LEAF_ASSETS = "asset-ingestion-events.leaf"
    METADATA_EVENTS = "metadata-events"
    METADATA_CHANGES = "metadata-changes"
    PROPAGATION = "metadata-update-propagation-events"
    NOTIFICATIONS = "notification-events"
    DEAD_LETTERS = "dead-letters"

    def under(self, prefix: str) -> str:
        """The topic's name in the cell with this prefix."""
        return f"{prefix}{self.value}"


LANE_TOPICS = {
    Lane.STRUCTURAL: Topic.STRUCTURAL_ASSETS,
    Lane.LEAF: Topic.LEAF_ASSETS,
    Lane.LINEAGE: Topic.METADATA_EVENTS,
}


@dataclass(frozen=True)
class TopicSpec:
    """How a topic is created. The ingest topics are kept longest: the state is rebuilt from them."""

    topic: Topic
    retention_ms: int

    @property
    def config(self) -> dict[str, str]:
        return {
            "retention.ms": str(self.retention_ms),
            "max.message.bytes": str(MAX_RECORD_BYTES),
            "cleanup.policy": "delete",
            "compression.type": "producer",
        }


TOPIC_SPECS = tuple(
    TopicSpec(topic, (30 if topic in LANE_TOPICS.values() else 7) * DAY_MS) for topic in Topic
)
