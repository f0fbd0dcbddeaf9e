"""The ring of keys: chosen by settings, never by default, and never shown."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from lily.domain.errors import MisconfiguredError
from lily.repositories import keyrings
from lily.repositories.keyrings import LocalKeyring, SecretUnreadable, new_key, open_keyring, read_keys
from lily.settings import SecretsSettings


def ring(*keys: str) -> LocalKeyring:
    return LocalKeyring(read_keys(",".join(keys), "LILY_SECRETS_KEYS"))


def test_the_first_key_wraps_and_every_key_unwraps() -> None:
    old, new = new_key("old"), new_key("new")
    wrapped = ring(old).wrap(b"data key", b"context")
    both = ring(new, old)
    assert both.current == "new"
    assert both.unwrap("old", wrapped, b"context") == b"data key"


def test_a_wrapped_key_is_bound_to_its_context_and_to_its_key() -> None:
    keys = ring(new_key("one"), new_key("two"))
    wrapped = keys.wrap(b"data key", b"context")
    for key_id, context in (("one", b"other context"), ("two", b"context"), ("three", b"context")):
        with pytest.raises(SecretUnreadable):
            keys.unwrap(key_id, wrapped, context)
    for broken in (b"", wrapped[:-1], bytes([wrapped[0] ^ 1]) + wrapped[1:]):
        with pytest.raises(SecretUnreadable):
            keys.unwrap("one", broken, b"context")


def test_the_same_data_key_is_never_wrapped_alike() -> None:
    keys = ring(new_key("one"))
    assert keys.wrap(b"data key", b"") != keys.wrap(b"data key", b"")


def test_a_ring_without_keys_is_refused_and_names_the_variables() -> None:
    with pytest.raises(MisconfiguredError, match="LILY_SECRETS_KEYS"):
        open_keyring(SecretsSettings())
    with pytest.raises(MisconfiguredError, match="set one of"):
        open_keyring(SecretsSettings(keys=SecretStr(new_key("a")), kms="vault"))


@pytest.mark.parametrize("keys", ["hunter2", "a:", "a:AAAA", ":AAAA", "a:!!!!", "a b:AAAA"])
def test_what_is_no_key_is_refused_without_being_shown(keys: str) -> None:
    with pytest.raises(MisconfiguredError, match="LILY_SECRETS_KEYS") as refusal:
        open_keyring(SecretsSettings(keys=SecretStr(keys)))
    assert keys not in refusal.value.message


def test_two_keys_with_one_id_are_refused() -> None:
    with pytest.raises(MisconfiguredError, match="key 2"):
        ring(new_key("same"), new_key("same"))


def test_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{new_key('new')}\n{new_key('old')}\n")
    assert open_keyring(SecretsSettings(key_file=str(file))).current == "new"
    with pytest.raises(MisconfiguredError, match="LILY_SECRETS_KEY_FILE"):
        open_keyring(SecretsSettings(key_file=str(tmp_path / "missing")))


def a_key_service() -> LocalKeyring:
    return ring(new_key("kept-by-the-service"))


def test_a_key_service_is_a_plug_in_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoint("my-service", f"{__name__}:a_key_service", keyrings.PLUG_INS)
    points: Any = lambda group: [found] if group == "lily.kms" else []  # noqa: E731
    monkeypatch.setattr(keyrings, "entry_points", points)
    monkeypatch.setattr(EntryPoint, "load", lambda _self: a_key_service)
    assert open_keyring(SecretsSettings(kms="my-service")).current == "kept-by-the-service"
    with pytest.raises(MisconfiguredError, match="installed: my-service"):
        open_keyring(SecretsSettings(kms="other"))
