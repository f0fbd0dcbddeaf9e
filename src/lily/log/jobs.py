"""Jobs on the log: an order to read a source is an event on `scraping-job-events` of the shared cell."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Self
from uuid import UUID

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from lily.domain.errors import Unavailable
from lily.domain.scraping import Mode, ScrapingJob
from lily.log.envelope import Envelope, EventType
from lily.log.producer import client_config
from lily.log.records import Record, record_of
from lily.log.topics import Topic
from lily.settings import KafkaSettings

GROUP = "lily-scraper"
_SOURCE = "/lily/v1/connectors"
_READING = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # The broker answers at once when there is a job; without one it is asked this seldom.
    "fetch.wait.max.ms": 5000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 1000,
    "session.timeout.ms": 10_000,
    "queued.max.messages.kbytes": 1024,
}
_log = structlog.get_logger(__name__)


def job_record(job: ScrapingJob) -> Record:
    """The event; jobs of one connector stay in order."""
    said = {"job_id": job.job_id, "connector_id": job.connector_id, "mode": job.mode.value}
    return record_of(
        Envelope(
            event_id=UUID(job.job_id),
            event_type=EventType.SCRAPE_REQUESTED,
            source=_SOURCE,
            tenant_id=job.tenant_id,
            subject=job.connector_id,
            time=job.requested_at,
            data=json.dumps(said).encode(),
            actor=job.requested_by,
        )
    )


class JobFeed:
    """A member of the group that reads jobs. Blocking; call it from one thread at a time."""

    def __init__(self, settings: KafkaSettings) -> None:
        group = {"group.id": f"{settings.topic_prefix}{GROUP}"}
        self._consumer = Consumer(client_config(settings) | _READING | group)
        self._consumer.subscribe([Topic.SCRAPING_JOBS.under(settings.topic_prefix)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def next(self, seconds: float) -> ScrapingJob | None:
        """The next job, or None when there was none for this long."""
        message = self._consumer.poll(seconds)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return None
            raise Unavailable(f"the log cannot be read: {error.str()}", part="kafka")
        job = _read(message)
        if job is None:
            _log.warning("job_unreadable", partition=message.partition(), offset=message.offset())
            self.done()
        return job

    def done(self) -> None:
        """What was read so far is taken care of: nobody need read it again."""
        try:
            self._consumer.commit(asynchronous=False)
        except (
            KafkaException
        ) as error:  # read again by whoever has the partition now; a job runs once all the same
            _log.warning("job_not_committed", error=str(error))


def _read(message: Message) -> ScrapingJob | None:
    pairs: list[tuple[str, object]] = list(message.headers() or [])  # type: ignore[arg-type] # as the client gives
    headers = {name: value.decode() for name, value in pairs if isinstance(value, bytes)}
    try:
        said = json.loads(message.value() or b"")
        return ScrapingJob(
            headers["ce_tenantid"],
            str(UUID(said["job_id"])),
            str(UUID(said["connector_id"])),
            Mode(said["mode"]),
            headers.get("ce_actor", ""),
            datetime.fromisoformat(headers["ce_time"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
