"""The salts of a tenant's hashed values: one per engine, within which equal values have equal hashes."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from lily.repositories.postgres.secrets import PostgresSecrets, SecretName


class ProtectionSalts:
    """Made when first asked for, kept encrypted, and never changed."""

    def __init__(self, stored: PostgresSecrets) -> None:
        self._stored = stored

    async def of(self, tenant_id: str, engine: str = "") -> str:
        """64 hexadecimal digits. A hash is SHA-256 over them and the value (UTF-8), in lower-case hex.

        An engine whose readers can come by its salt has one of its own, which tells nothing of the others.
        """
        name = SecretName(tenant_id, "protection", "salt")
        salt = await self._stored.get(name)
        if salt is None:
            await self._stored.put_once(name, secrets.token_hex(32).encode())
            salt = await self._stored.get(name)
        assert salt is not None
        return hmac.new(salt, engine.encode(), sha256).hexdigest() if engine else salt.decode()
