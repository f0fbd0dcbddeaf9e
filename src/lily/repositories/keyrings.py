"""Key-encryption keys: from the environment, from a file, or from a key service that is a plug-in.

A key never leaves its ring: the ring wraps and unwraps data keys. The first key of a ring wraps, all of them
unwrap, so that a key can be replaced while everything runs.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lily.domain.errors import LilyError, MisconfiguredError
from lily.settings import SecretsSettings

#: Plug-ins are functions without parameters, registered here, that return a `Keyring`.
PLUG_INS = "lily.kms"
KEY_BYTES = 32
_NONCE_BYTES = 12
_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_HOW = "make one with `lily secrets new-key`, and set it as LILY_SECRETS_KEYS or in LILY_SECRETS_KEY_FILE"


class SecretUnreadable(LilyError):
    """A secret cannot be decrypted: its key is not in the ring, or it is not what was stored."""

    code = "secret_unreadable"


class Keyring(Protocol):
    """What a key service can do. `context` must be the same for both directions."""

    @property
    def current(self) -> str:
        """The id of the key that wraps."""

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """The data key, encrypted with the current key."""

    def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        """The data key again; `SecretUnreadable` when that key cannot do it."""


class LocalKeyring:
    """Keys this process holds; AES-256 in Galois/counter mode."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self.current = next(iter(keys))

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        return encrypt(self._keys[self.current], data_key, context)

    def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        if key_id not in self._keys:
            known = ", ".join(self._keys)
            raise SecretUnreadable(f"the key {key_id!r} is not in the ring (it has {known}); add it again")
        return decrypt(self._keys[key_id], wrapped, context)


def encrypt(cipher: AESGCM, plain: bytes, context: bytes) -> bytes:
    """Nonce and ciphertext; whoever decrypts must know the context."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, plain, context)


def decrypt(cipher: AESGCM, sealed: bytes, context: bytes) -> bytes:
    try:
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise SecretUnreadable("the secret was changed, or belongs to someone else; put it again") from None


def new_key(key_id: str) -> str:
    """A fresh key as the settings spell it."""
    if not _KEY_ID.fullmatch(key_id):
        raise MisconfiguredError(f"{key_id!r} is not a key id: 1 to 63 letters, digits, '_', '.' or '-'")
    return f"{key_id}:{b64encode(os.urandom(KEY_BYTES)).decode()}"


def open_keyring(settings: SecretsSettings) -> Keyring:
    """The ring the settings choose; fails and names the variable when they choose none, or more than one."""
    given = settings.keys.get_secret_value()
    chosen = [bool(given), bool(settings.key_file), bool(settings.kms)]
    if sum(chosen) != 1:
        raise MisconfiguredError(
            f"set one of LILY_SECRETS_KEYS, LILY_SECRETS_KEY_FILE and LILY_SECRETS_KMS; {_HOW}"
        )
    if settings.kms:
        return _plugged_in(settings.kms)
    if settings.key_file:
        return LocalKeyring(read_keys(_read(settings.key_file), "LILY_SECRETS_KEY_FILE"))
    return LocalKeyring(read_keys(given, "LILY_SECRETS_KEYS"))


def read_keys(text: str, variable: str) -> dict[str, bytes]:
    """`id:key` pairs, separated by commas or lines; the keys are 32 bytes in base64."""
    keys: dict[str, bytes] = {}
    for number, part in enumerate(re.split(r"[,\s]+", text.strip()), 1):
        key_id, colon, spelled = part.partition(":")
        try:
            key = b64decode(spelled, validate=True)
        except NotBase64:
            key = b""
        if not (colon and _KEY_ID.fullmatch(key_id) and len(key) == KEY_BYTES and key_id not in keys):
            # The value itself stays out of the message: it may be most of a key.
            raise MisconfiguredError(
                f"{variable}: key {number} is not id:base64, with an id of its own and 32 bytes; {_HOW}"
            )
        keys[key_id] = key
    return keys


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise MisconfiguredError(f"LILY_SECRETS_KEY_FILE: cannot read {file}: {error}") from None


def _plugged_in(name: str) -> Keyring:
    found = {point.name: point for point in entry_points(group=PLUG_INS)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise MisconfiguredError(
            f"LILY_SECRETS_KMS: no plug-in {name!r} in the group {PLUG_INS!r}; installed: {known}"
        )
    ring: Keyring = found[name].load()()
    return ring
