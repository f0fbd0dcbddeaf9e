"""Creates the topics this version needs and brings the settings of existing ones up to date."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from lily.log.producer import client_config
from lily.log.topics import TOPIC_SPECS, TopicSpec
from lily.settings import KafkaSettings

_TIMEOUT = 30.0


def migrate_topics(settings: KafkaSettings) -> list[str]:
    """Create what is missing; returns the names created. Partitions of an existing topic stay as they are:
    adding some would move assets to other partitions and break their order."""
    admin = AdminClient(client_config(settings))
    wanted = {spec.topic.under(settings.topic_prefix): spec for spec in TOPIC_SPECS}
    existing = admin.list_topics(timeout=_TIMEOUT).topics
    missing = [name for name in wanted if name not in existing]
    if missing:
        created = admin.create_topics([_new_topic(name, wanted[name], settings) for name in missing])
        for future in created.values():
            _ignoring_existing(future)
    _update_configs(admin, {name: spec for name, spec in wanted.items() if name in existing})
    return missing


def delete_topics(settings: KafkaSettings) -> None:
    """Remove the topics of a cell and all that is on them."""
    admin = AdminClient(client_config(settings))
    existing = admin.list_topics(timeout=_TIMEOUT).topics
    names = [spec.topic.under(settings.topic_prefix) for spec in TOPIC_SPECS]
    present = [name for name in names if name in existing]
    for future in (admin.delete_topics(present) if present else {}).values():
        future.result(_TIMEOUT)


def _new_topic(name: str, spec: TopicSpec, settings: KafkaSettings) -> NewTopic:
    return NewTopic(
        name,
        num_partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        config=spec.config,
    )


def _ignoring_existing(future: object) -> None:
    try:
        future.result(_TIMEOUT)  # type: ignore[attr-defined]
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _update_configs(admin: AdminClient, topics: dict[str, TopicSpec]) -> None:
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in spec.config.items()
            ],
        )
        for name, spec in topics.items()
    ]
    for future in (admin.incremental_alter_configs(resources) if resources else {}).values():
        future.result(_TIMEOUT)
