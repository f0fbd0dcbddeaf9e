"""A tenant of a running installation that says and asks about lineage and tags."""

from __future__ import annotations

from typing import Any

from httpx import Response

from kit.platform import Tenant

GOVERNANCE = "/governance"


class Graph(Tenant):
    """A tenant of its own; every read waits for all that was written before."""

    last_event = ""

    def _written(self, answer: Response) -> Response:
        assert answer.status_code in (200, 201, 202, 204), answer.text
        self.last_event = answer.headers["lily-event-id"]
        return answer

    def assets(self, *names: str, **said: Any) -> None:
        bodies = [{"asset_id": name, "asset_name": name, "asset_type": "table"} | said for name in names]
        self._written(self.call("POST", json={"assets": bodies}))

    def link(self, *pairs: str, kind: str = "derived-from", **said: Any) -> None:
        """`link("a>b", "b>c")`."""
        ends = [pair.split(">") for pair in pairs]
        body = [{"from_asset_id": a, "to_asset_id": b, "relationship_type": kind} | said for a, b in ends]
        self._written(self.call("POST", "/lineage", json={"relationships": body}))

    def unlink(self, pair: str, kind: str = "derived-from", **query: str) -> None:
        start, end = pair.split(">")
        asked = {"to_asset_id": end, "relationship_type": kind} | query
        self._written(self.call("DELETE", f"/lineage/{start}", params=asked))

    def tag(self, asset: str, *tags: str, prefer: str = "", **said: Any) -> None:
        body = {"asset_id": asset, "tags": list(tags or ("PII",))} | said
        headers = {"prefer": prefer} if prefer else {}
        self._written(self.call("POST", f"{GOVERNANCE}/classification", json=body, headers=headers))

    def untag(self, asset: str, tag: str = "PII") -> None:
        path = f"{GOVERNANCE}/classification/{asset}"
        self._written(self.call("DELETE", path, params={"tag": tag}))

    def define(self, tag: str, stopped_by_masking: bool = True, **propagate: bool) -> None:
        body = {"propagate": propagate, "stopped_by_masking": stopped_by_masking}
        self._written(self.call("PUT", f"{GOVERNANCE}/tags/{tag}", json=body))

    def delete(self, asset: str, **query: str) -> None:
        self._written(self.call("DELETE", f"/{asset}", params=query))

    def read(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self.call("GET", path, params=query, headers={"lily-after": self.last_event})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def tags(self, asset: str) -> list[str]:
        return list(self.read(f"{GOVERNANCE}/classification/{asset}")["effective_tags"])

    def having(self, tag: str, *assets: str) -> str:
        """Which of the assets have the tag, as one text."""
        return "".join(asset for asset in assets if tag in self.tags(asset))

    def origins(self, asset: str, tag: str = "PII") -> list[str]:
        shown = self.read(f"{GOVERNANCE}/classification/{asset}")["tags"]
        return sorted(o["asset_id"] for each in shown if each["tag"] == tag for o in each["origins"])

    def retagged(self) -> list[dict[str, Any]]:
        query = "SELECT asset_id, added, removed FROM tag_changes WHERE tenant_id = %s ORDER BY seq"
        return self.platform.fetch(query, self.name)


def chain(graph: Graph) -> None:
    graph.assets("a", "b", "c", "d")
    graph.link("a>b", "b>c", "c>d")
