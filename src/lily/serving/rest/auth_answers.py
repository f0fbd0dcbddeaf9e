"""How answers about credentials, logins and the roles of people look, for OpenAPI."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel


class GrantedTokens(BaseModel):
    """`scope` narrows what the tokens are good for."""

    access_token: str
    token_type: str
    expires_in: int
    refresh_token: str
    scope: str = ""


class BrowserLogin(BaseModel):
    """The session itself is in a cookie."""

    csrf_token: str


class CredentialName(BaseModel):
    kind: str
    id: str


class CredentialDocument(BaseModel):
    """Whom a credential speaks for; `actions` null does not narrow what the roles allow."""

    active: bool
    tenant_id: str
    subject: str
    roles: list[str]
    groups: list[str]
    actions: list[str] | None
    credential: CredentialName
    expires_at: datetime
    csrf_token: str = ""


class LoginProviders(BaseModel):
    local: bool
    providers: list[str]


class ProtectedResource(BaseModel):
    """RFC 9728."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


class ApiKeyDocument(BaseModel):
    key_id: str
    name: str
    owner: str
    roles: list[str]
    scopes: list[str] | None
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class NewApiKey(ApiKeyDocument):
    """With the key itself, which is shown once."""

    api_key: str


class ApiKeyList(BaseModel):
    api_keys: list[ApiKeyDocument]


class GroupRolesList(BaseModel):
    """By the name of the group."""

    group_roles: dict[str, list[str]]


class GroupRolesDocument(BaseModel):
    group_name: str
    roles: list[str]


class UserRolesDocument(BaseModel):
    user_id: str
    roles: list[str]
