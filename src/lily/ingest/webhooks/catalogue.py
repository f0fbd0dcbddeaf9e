"""The sources this installation knows: those that come with Lily, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from lily.domain.errors import MisconfiguredError
from lily.ingest.webhooks import generic, monte_carlo
from lily.ingest.webhooks.sources import WebhookSource

#: Packages register a `WebhookSource` here, under the name of its type.
GROUP = "lily.ingest"
_OWN = (monte_carlo.SOURCE, generic.SOURCE)


@cache
def webhook_sources() -> dict[str, WebhookSource]:
    """By type of connector; a package cannot take the place of a source that is there."""
    known = {source.type.name: source for source in _OWN}
    for point in entry_points(group=GROUP):
        found = point.load()
        if isinstance(found, WebhookSource):
            if found.type.name in known:
                raise MisconfiguredError(f"{point.value}: there is a source {found.type.name!r} already")
            known[found.type.name] = found
    return known
