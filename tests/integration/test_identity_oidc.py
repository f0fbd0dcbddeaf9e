"""Tokens of an identity provider: the attacks that worked on others, against the whole gateway."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from identity_kit import AUTH, add_user, bearer, forget_everything, read_status, validate
from rest_kit import Gateway, gateway, problem

from kit.eventually import eventually
from kit.issuers import FakeIssuer, running_issuer
from lily.access import keys
from lily.access.issuers import Issuers
from lily.domain.errors import Unauthenticated
from lily.settings import IssuerSettings, Settings

#: What proxies and gateways elsewhere put an identity in.
IDENTITY_HEADERS = (
    "x-user",
    "x-forwarded-user",
    "x-remote-user",
    "remote-user",
    "x-auth-request-user",
    "x-tenant-id",
    "x-lily-tenant",
    "x-roles",
    "x-amzn-oidc-identity",
)


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeIssuer]:
    """A provider of several tenants."""
    with running_issuer() as running:
        yield running


def believing(settings: Settings, *issuers: IssuerSettings) -> Settings:
    return settings.model_copy(update={"auth": settings.auth.model_copy(update={"issuers": issuers})})


def configured(issuer: FakeIssuer, **more: Any) -> IssuerSettings:
    roles = {"data-stewards": ["steward"]}
    return IssuerSettings(
        **({"name": "fake", "issuer": issuer.url, "audience": "lily", "roles": roles} | more)
    )


@pytest.fixture(scope="module")
def running(
    shared_settings_without_log: Settings, issuer: FakeIssuer, shared: FakeIssuer
) -> Iterator[Gateway]:
    many = configured(shared, name="shared", tenant_claim="org.tenant", tenants=["acme", "globex"])
    settings = believing(shared_settings_without_log, configured(issuer, tenant="acme"), many)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "COOLDOWN_SECONDS", 0.0)
        with gateway(settings) as api:
            yield api


@pytest.fixture
def api(running: Gateway) -> Gateway:
    forget_everything(running)
    return running


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def test_a_token_speaks_for_its_bearer_with_the_roles_of_their_groups(
    api: Gateway, issuer: FakeIssuer
) -> None:
    who = validate(api, issuer.token()).json()
    assert (who["tenant_id"], who["subject"]) == ("acme", "ada")
    assert (who["roles"], who["groups"]) == (["steward"], ["data-stewards"])
    assert read_status(api, issuer.token()) == 404


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_every_allowed_algorithm_is_verified(api: Gateway, issuer: FakeIssuer, algorithm: str) -> None:
    before = issuer.signing
    token = issuer.token(key_id=issuer.add_key(algorithm))
    issuer.signing = before
    assert validate(api, token).status_code == 200
    head, claims, signature = token.split(".")
    tampered = encoded(issuer.claims(groups=["data-stewards", "admins"]))
    assert read_status(api, f"{head}.{tampered}.{signature}") == 401
    assert read_status(api, f"{head}.{claims}.{signature[:-8]}AAAAAAAA") == 401


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", ""])
def test_an_unsigned_token_is_refused(api: Gateway, issuer: FakeIssuer, algorithm: str) -> None:
    head = encoded({"alg": algorithm, "typ": "JWT", "kid": issuer.signing})
    claims = encoded(issuer.claims())
    for signature in ("", "AAAA"):
        assert read_status(api, f"{head}.{claims}.{signature}") == 401


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_the_public_key_is_no_shared_secret(api: Gateway, issuer: FakeIssuer, algorithm: str) -> None:
    digest = algorithm.replace("HS", "sha")
    pem = (
        issuer.keys[issuer.signing][1]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    signed = f"{encoded({'alg': algorithm, 'kid': issuer.signing})}.{encoded(issuer.claims())}"
    for secret in (pem, pem.strip(), json.dumps(issuer.public_keys()[0]).encode()):
        mac = base64.urlsafe_b64encode(hmac.new(secret, signed.encode(), digest).digest()).decode()
        assert read_status(api, f"{signed}.{mac.rstrip('=')}") == 401


def test_a_token_of_the_provider_signed_with_our_own_secret_is_refused(
    api: Gateway, issuer: FakeIssuer
) -> None:
    secret = api.settings.auth.secret.get_secret_value()
    forged = jwt.encode(issuer.claims(), secret, "HS256", headers={"kid": issuer.signing})
    assert read_status(api, forged) == 401
    claims = issuer.claims(iss="lily", tenant="acme", role="owner", nbf=0)
    algorithm, key = issuer.keys[issuer.signing]
    assert read_status(api, jwt.encode(claims, key, algorithm, headers={"kid": issuer.signing})) == 401


def test_an_issuer_is_not_believed_because_the_token_names_it(api: Gateway) -> None:
    with running_issuer() as stranger:
        token = stranger.token(headers={"jku": f"{stranger.url}/keys", "x5u": f"{stranger.url}/keys"})
        answer = validate(api, token)
        assert "not one this installation believes" in problem(answer, 401, "unauthenticated")["detail"]
        assert stranger.asked == 0


def test_a_key_is_taken_from_the_issuer_and_not_from_the_token(api: Gateway, issuer: FakeIssuer) -> None:
    with running_issuer() as stranger:
        algorithm, key = stranger.keys[stranger.signing]
        claims = issuer.claims()
        [public] = stranger.public_keys()
        for headers in (
            {"kid": stranger.signing, "jwk": public},
            {"kid": stranger.signing, "jku": f"{stranger.url}/keys"},
            {"kid": issuer.signing, "jwk": public},
            {"kid": issuer.signing},
        ):
            assert read_status(api, jwt.encode(claims, key, algorithm, headers=headers)) == 401
        assert stranger.asked == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1_700_000_000},
        {"exp": None},
        {"nbf": 4_000_000_000},
        {"aud": "somebody-else"},
        {"aud": None},
        {"aud": ["a", "b"]},
        {"sub": None},
        {"iat": None},
        {"preferred_username": None},
        {"preferred_username": "key:ci"},
        {"preferred_username": ["ada"]},
        {"preferred_username": "a\x00b"},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_or_missing_claim_is_refused(
    api: Gateway, issuer: FakeIssuer, changes: dict[str, Any]
) -> None:
    assert read_status(api, issuer.token(**changes)) == 401


def test_one_audience_of_several_is_enough(api: Gateway, issuer: FakeIssuer) -> None:
    assert read_status(api, issuer.token(aud=["account", "lily"])) == 404


def test_an_id_token_given_to_another_client_is_refused(issuer: FakeIssuer) -> None:
    async def verified(**claims: Any) -> None:
        issuers = Issuers([configured(issuer, tenant="acme", client_id="console")])
        found = issuers.of(issuer.url)
        assert found is not None
        try:
            await found.verify(issuer.token(**claims), "console")
        finally:
            await issuers.close()

    asyncio.run(verified(aud="console"))
    asyncio.run(verified(aud=["console", "lily"], azp="console"))
    others: list[dict[str, Any]] = [{"aud": "console", "azp": "other"}, {"aud": ["console", "lily"]}]
    for claims in others:
        with pytest.raises(Unauthenticated):
            asyncio.run(verified(**claims))


def test_a_tenant_is_taken_from_a_claim_only_if_the_issuer_may_name_it(
    api: Gateway, shared: FakeIssuer
) -> None:
    assert validate(api, shared.token(org={"tenant": "globex"})).json()["tenant_id"] == "globex"
    for org in ({"tenant": "initech"}, {"tenant": ["acme"]}, {}, None, "acme"):
        assert read_status(api, shared.token(org=org)) == 401


def test_a_fixed_tenant_is_not_changed_by_any_claim(api: Gateway, issuer: FakeIssuer) -> None:
    token = issuer.token(tenant="globex", tenant_id="globex", org={"tenant": "globex"})
    assert validate(api, token).json()["tenant_id"] == "acme"


def test_identity_headers_of_the_caller_are_ignored(api: Gateway, issuer: FakeIssuer) -> None:
    claimed = dict.fromkeys(IDENTITY_HEADERS, "root")
    assert api.client.get(f"{AUTH}/validate", headers=claimed).status_code == 401
    who = api.client.get(f"{AUTH}/validate", headers=claimed | bearer(issuer.token())).json()
    assert (who["tenant_id"], who["subject"], who["roles"]) == ("acme", "ada", ["steward"])


def test_roles_come_from_the_mapping_alone(api: Gateway, issuer: FakeIssuer) -> None:
    token = issuer.token(groups=["owner", "steward"], roles=["owner"], role="owner")
    assert validate(api, token).json()["roles"] == []
    assert read_status(api, token) == 403


def test_a_role_given_to_a_group_in_lily_is_effective_at_once(api: Gateway, issuer: FakeIssuer) -> None:
    token = issuer.token(groups=["finance"])
    assert read_status(api, token) == 403
    api.insert("group_roles", {"tenant_id": "acme", "group_name": "finance", "role": "viewer"})
    eventually(lambda: read_status(api, token) == 404, 1)


def test_a_person_deactivated_here_is_refused_although_the_provider_vouches(
    api: Gateway, issuer: FakeIssuer
) -> None:
    token = issuer.token()
    assert read_status(api, token) == 404
    add_user(api, "Ada", active=False)
    eventually(lambda: read_status(api, token) == 401, 1)


def test_a_token_of_a_provider_can_be_logged_out(api: Gateway, issuer: FakeIssuer) -> None:
    token, other = issuer.token(), issuer.token(jti=None)
    for each in (token, other):
        assert read_status(api, each) == 404
        assert api.client.post(f"{AUTH}/logout", headers=bearer(each)).status_code == 204
        assert read_status(api, each) == 401


def test_scopes_of_ours_in_a_token_narrow_it(api: Gateway, issuer: FakeIssuer) -> None:
    assert validate(api, issuer.token(scope="openid lily:read")).json()["actions"] == ["read"]
    assert validate(api, issuer.token(scp=["lily:read"])).json()["actions"] == ["read"]
    assert validate(api, issuer.token(scope="openid email")).json()["actions"] is None


def test_a_remembered_token_still_expires(api: Gateway, issuer: FakeIssuer) -> None:
    token = issuer.token(exp=int(time.time()) - 57)  # within the clock skew, for three more seconds
    assert read_status(api, token) == 404
    eventually(lambda: read_status(api, token) == 401)


def test_a_removed_key_is_refused_and_a_new_one_found(api: Gateway, issuer: FakeIssuer) -> None:
    old = issuer.signing
    token = issuer.token(sub="remembered")
    del issuer.keys[old]
    new = issuer.add_key("RS256")
    assert read_status(api, issuer.token(key_id=new)) == 404
    assert read_status(api, token) == 401


def test_rubbish_is_refused(api: Gateway) -> None:
    deep = base64.urlsafe_b64encode(b'{"iss":' + b"[" * 5_000 + b"]" * 5_000 + b"}").decode().rstrip("=")
    head = encoded({"alg": "RS256", "kid": "x"})
    for token in ("x", "a.b.c", f"{head}.{deep}.AAAA", f"{head}.e30.", f"{head}..", "." * 20):
        assert read_status(api, token) == 401
