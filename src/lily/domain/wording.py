"""The words of a message: what happened to which asset, and why this person is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from lily.domain.assets import Traits
from lily.domain.changes import Change, ChangeKind
from lily.domain.messages import INFO, Message
from lily.domain.subscriptions import Match, Subscription, group_of
from lily.domain.templates import render

_MOST = 300
_ORIGINS = "Came from"
_RADIUS = "Blast radius"


@dataclass(frozen=True, slots=True)
class Told:
    """What a message may tell: the change, its asset as far as the owner may see it, and the way there."""

    change: Change
    asset: Traits | None
    asset_name: str = ""
    #: Along lineage, from the upstream end to the downstream end.
    path: tuple[str, ...] = ()
    #: Where tags came from, as far as the owner may see it.
    origins: tuple[str, ...] = ()
    #: Of an incident: how many assets are downstream, as far as the owner may see them, in words.
    radius: str = ""


def compose(subscription: Subscription, told: Told, base_url: str = "") -> Message:
    """The message of a subscription about a change, in the subscription's words if it has any."""
    reason = explain(subscription, told.path)
    values = _values(subscription, told) | {"reason": reason}
    title, text = subscription.template.title, subscription.template.text
    change = told.change
    return Message(
        title=render(title, values) if title is not None else _title(values, change),
        text=render(text, values) if text is not None else _text(values),
        severity=values["severity"] or INFO,
        change=change.name,
        state=values["incident_status"],
        reason=reason,
        group_key=group_of(change),
        fields=tuple(_fields(values, told)),
        asset_id=change.subject,
        asset_name=values["asset_name"],
        incident_id=change.incident_id,
        link=_link(base_url, change),
        event_id=change.event_id,
    )


def lasting(match: Match) -> Message:
    """The message as it may be kept: whoever reads it later may no longer see other assets than its own."""
    fields = tuple(field for field in match.message.fields if field[0] not in (_ORIGINS, _RADIUS))
    return replace(match.message, reason=explain(match.subscription), fields=fields)


def explain(subscription: Subscription, path: Sequence[str] = ()) -> str:
    """Why this is told: which subscription, by what it selects, and along which path."""
    selection = subscription.selection
    parts = [
        ("changes", selection.changes),
        ("severity", selection.severities),
        ("asset", selection.assets),
        ("tag", selection.tags),
        ("type", selection.types),
        ("owner", selection.owners),
        ("downstream of", selection.downstream_of),
        ("upstream of", selection.upstream_of),
    ]
    selects = "; ".join(f"{label} {_listed(sorted(values))}" for label, values in parts if values)
    by = f"the subscription {subscription.name!r} of {subscription.owner} selects {selects or 'everything'}"
    return f"{by}; path: {' → '.join(path)}" if len(path) > 1 else by


def _values(subscription: Subscription, told: Told) -> dict[str, str]:
    change, asset, incident = told.change, told.asset, told.change.incident
    data = change.data
    return {
        "asset_id": change.subject or "",
        "asset_name": told.asset_name or change.subject or "",
        "asset_type": asset.asset_type if asset else "",
        "asset_owner": asset.owner if asset else "",
        "data_source": asset.data_source if asset else "",
        "tags": ", ".join(sorted(asset.tags)) if asset else "",
        "change": f"{change.kind} {change.outcome}",
        "changed": ", ".join(data.get("changed") or ()),
        "added_tags": ", ".join(data.get("added") or ()),
        "removed_tags": ", ".join(data.get("removed") or ()),
        "actor": str(data.get("actor") or ""),
        "severity": str(incident.get("severity") or data.get("severity") or ""),
        "incident_id": change.incident_id,
        "incident_title": str(incident.get("title") or data.get("title") or ""),
        "incident_status": str(incident.get("status") or ""),
        "incident_url": str(incident.get("url") or ""),
        "text": str(data.get("text") or ""),
        "event_time": str(data.get("event_time") or ""),
        "subscription": subscription.name,
    }


def _title(values: dict[str, str], change: Change) -> str:
    about = values["asset_name"]
    if change.kind is ChangeKind.NOTIFICATION:
        return values["incident_title"] or f"Notice about {about}"
    if change.kind is ChangeKind.INCIDENT:
        what = values["incident_title"] or f"incident {change.incident_id}"
        return f"Incident {change.outcome}: {what}" + (f" on {about}" if about else "")
    if change.kind is ChangeKind.TAGS:
        gains = [f"+{tag}" for tag in change.data.get("added") or ()]
        losses = [f"−{tag}" for tag in change.data.get("removed") or ()]
        return f"Tags of {about}: {_listed([*gains, *losses])}"
    return f"{values['asset_type'].capitalize() or 'Asset'} {change.outcome}: {about}"


def _text(values: dict[str, str]) -> str:
    if values["text"]:
        return values["text"]
    return f"Changed: {values['changed']}" if values["changed"] else ""


def _fields(values: dict[str, str], told: Told) -> Sequence[tuple[str, str]]:
    shown = [
        ("Asset", values["asset_name"]),
        ("Type", values["asset_type"]),
        ("Owner", values["asset_owner"]),
        ("Source", values["data_source"]),
        ("Tags", values["tags"]),
        (_ORIGINS, ", ".join(told.origins)),
        ("Severity", values["severity"]),
        ("Status", values["incident_status"]),
        ("Rule", _rule(told.change)),
        (_RADIUS, told.radius),
        ("By", values["actor"]),
    ]
    return [(label, text) for label, text in shown if text]


def _rule(change: Change) -> str:
    """What was broken, as the source calls it."""
    rule = change.incident.get("rule") or {}
    return str(rule.get("description") or rule.get("name") or rule.get("type") or "")


def _link(base_url: str, change: Change) -> str:
    if not base_url:
        return ""
    if change.incident_id:
        return f"{base_url}/lily/v1/incidents/{quote(change.incident_id, safe='')}"
    return f"{base_url}/lily/v1/metadata/{quote(change.subject, safe='')}" if change.subject else ""


def _listed(values: Sequence[str]) -> str:
    text = ", ".join(values)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
