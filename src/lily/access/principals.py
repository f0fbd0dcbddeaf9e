"""The one who asks, as every interface knows them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A verified caller. Everything they read or write belongs to `tenant_id`."""

    tenant_id: str
    subject: str
    roles: frozenset[str]
    groups: frozenset[str] = frozenset()
    #: What the credential is good for at most; None does not narrow what the roles allow.
    scopes: frozenset[str] | None = None
    #: The id of the token or API key, by which it is revoked and audited.
    credential_id: str = ""
    #: Whose API key this is, with their roles and groups: what is forbidden to those is forbidden to it.
    owner: str = ""
    owner_roles: frozenset[str] = frozenset()
    owner_groups: frozenset[str] = frozenset()
    #: Which connector's run this is; no credential says so, only the scraper itself.
    connector_id: str = ""

    @property
    def person(self) -> str:
        """Whom policies about users mean."""
        return self.owner or self.subject
