"""Declarative mappings: where in a payload the fields of an incident are; no code, checked when written.

    {"items": "alerts",
     "fields": {"external_id": "fingerprint", "title": ["annotations.summary", "labels.alertname"],
                "status": {"path": "status", "values": {"firing": "open", "resolved": "resolved"}}},
     "names": ["labels.table"], "time": {"open": "startsAt", "resolved": "endsAt"}}

A path is names and list positions joined by dots; of several paths the first that leads to something counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lily.domain.errors import InvalidInput
from lily.domain.incidents import MAX_TEXT, SEVERITIES, Status, Step, StepKind, kind_of
from lily.ingest.webhooks.sources import Config, named, unread, wrong

#: Fields whose values are ours, so that a source's words must be translated into them.
_OURS: dict[str, Sequence[str]] = {"status": tuple(Status), "severity": SEVERITIES}
_TEXTS = ("external_id", "title", "owner", "feedback", "url", "ticket")
FIELDS = (*_TEXTS, *_OURS, "rule", "measurements")
_KEYS = ("items", "fields", "names", "time")
_MAX_ITEMS = 500
_MAX_STEPS = 16
#: Some sources write a time that is not yet known as the first moment of the calendar.
_NEVER = datetime(2, 1, 1, tzinfo=UTC)

Fields = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Where a field is: the paths to try, and what its values mean."""

    paths: tuple[Path, ...]
    values: Mapping[str, str] | None = None
    default: str | None = None

    def read(self, item: Any) -> Any:
        found = next((value for path in self.paths if (value := follow(item, path)) is not None), None)
        if self.values is None:
            return found
        return self.values.get(str(found), self.default)


@dataclass(frozen=True, slots=True)
class Mapping_:
    """A mapping that was checked."""

    items: Path
    fields: Mapping[str, Rule]
    names: tuple[Path, ...]
    times: Mapping[str, Path]

    def steps(self, payload: Any, config: Config) -> list[Step]:
        """A step for every item of the payload."""
        items = follow(payload, self.items) if self.items else [payload]
        if not isinstance(items, list) or not items:
            raise unread(f"there is no list at {'.'.join(self.items)!r}")
        if len(items) > _MAX_ITEMS:
            raise InvalidInput(f"there are {len(items)} items; at most {_MAX_ITEMS} are taken at once")
        return [self._step(item, config) for item in items]

    def _step(self, item: Any, config: Config) -> Step:
        said = {
            name: read for name, rule in self.fields.items() if (read := rule.read(item)) not in (None, "")
        }
        external_id = said.pop("external_id", None)
        if external_id is None:
            raise unread("the external_id is not where the mapping says")
        said |= {name: _fitted(name, value) for name, value in said.items()}
        said |= named([_text(follow(item, path)) for path in self.names], config)
        at = self._time(item, said.get("status"))
        status = said.get("status")
        kind = StepKind.OPENED if status == Status.OPEN else kind_of(status, list(said))
        if (
            status == Status.OPEN and at is None
        ):  # without a time, a late beginning must not undo what followed
            return Step(str(external_id)[:512], kind, said, {"status": said.pop("status")})
        return Step(str(external_id)[:512], kind, said, at=at)

    def _time(self, item: Any, status: str | None) -> datetime | None:
        path = self.times.get(status or "", self.times.get("*"))
        text = follow(item, path) if path else None
        try:
            at = datetime.fromisoformat(text) if isinstance(text, str) else None
        except ValueError:
            return None
        if at is None:
            return None
        at = at.replace(tzinfo=at.tzinfo or UTC)
        return at.astimezone(UTC) if at > _NEVER else None


def follow(value: Any, path: Path) -> Any:
    """What is at the end of a path; None when it leads nowhere."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:6]) < len(value):
            value = value[int(part[:6])]
        else:
            return None
    return value


def read_mapping(written: Any) -> Mapping_:
    """The mapping as it will be used; `InvalidInput` says where it is not one."""
    if not isinstance(written, dict):
        raise wrong("mapping", "must be an object or the name of a mapping that is shipped")
    if unknown := [name for name in written if name not in _KEYS]:
        raise wrong(f"mapping/{unknown[0]}", f"is not known here; known: {', '.join(_KEYS)}")
    fields = written.get("fields")
    if not isinstance(fields, dict) or "external_id" not in fields:
        raise wrong("mapping/fields", "must be an object and say where the external_id is")
    names = written.get("names", [])
    return Mapping_(
        items=_path(written["items"], "items") if written.get("items") else (),
        fields={name: _rule(name, rule) for name, rule in fields.items()},
        names=_paths(names, "names") if names else (),
        times=dict(_times(written.get("time", {}))),
    )


def _rule(name: str, written: Any) -> Rule:
    where = f"fields/{name}"
    if name not in FIELDS:
        raise wrong(f"mapping/{where}", f"is no field of an incident; known: {', '.join(FIELDS)}")
    if not isinstance(written, dict):
        written = {"path": written}
    if unknown := [key for key in written if key not in ("path", "values", "default")]:
        raise wrong(f"mapping/{where}/{unknown[0]}", "is not known here; known: path, values, default")
    values, default = written.get("values"), written.get("default")
    _check_values(name, values, default)
    return Rule(_paths(written.get("path"), where), values, default)


def _check_values(name: str, values: Any, default: Any) -> None:
    where, allowed = f"mapping/fields/{name}/values", _OURS.get(name)
    if values is None and allowed is None:
        return
    given = (
        [*(values or {}).values(), *([default] if default is not None else [])]
        if _is_texts(values)
        else [None]
    )
    if not all(isinstance(value, str) for value in given):
        raise wrong(where, "must be an object: the source's word → the incident's")
    if allowed and (unfit := [value for value in given if value not in allowed]):
        raise wrong(where, f"{str(unfit[0])[:64]!r} is none of {', '.join(allowed)}")


def _is_texts(values: Any) -> bool:
    return isinstance(values, dict) and bool(values)


def _times(written: Any) -> Iterator[tuple[str, Path]]:
    """One path for every status (`*`), or one for each."""
    for status, path in ({"*": written} if isinstance(written, str) else written).items():
        if status != "*" and status not in set(Status):
            raise wrong(f"mapping/time/{status}", f"is no status; known: {', '.join(Status)}")
        yield status, _path(path, f"time/{status}")


def _paths(written: Any, where: str) -> tuple[Path, ...]:
    several = written if isinstance(written, list) else [written]
    if not 0 < len(several) <= _MAX_STEPS:
        raise wrong(f"mapping/{where}", f"must be a path, or 1 to {_MAX_STEPS} of them")
    return tuple(_path(each, where) for each in several)


def _path(written: Any, where: str) -> Path:
    parts = tuple(written.split(".")) if isinstance(written, str) else ()
    if not parts or len(parts) > _MAX_STEPS or not all(parts):
        raise wrong(f"mapping/{where}", "must be a path such as labels.alertname")
    return parts


def _fitted(name: str, value: Any) -> Any:
    """The value in the type its field has."""
    if name == "rule":
        return value if isinstance(value, dict) else {"description": _text(value)}
    if name == "measurements":
        if isinstance(value, dict):
            return [{"metric": str(metric), "value": number} for metric, number in list(value.items())[:64]]
        return value[:64] if isinstance(value, list) else [{"value": value}]
    return _text(value)


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)[:MAX_TEXT]
