"""The one family of errors Lily raises on purpose; each edge maps it once to its own protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class LilyError(Exception):
    """Something went wrong that the caller can act on; the message says what to do."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(message)
        self.message = message
        self.values: Mapping[str, Any] = values


class InvalidInput(LilyError):
    """The payload breaks a rule; `errors` lists where and what is allowed."""

    code = "invalid_input"


class NotFound(LilyError):
    code = "not_found"


class Unauthenticated(LilyError):
    code = "unauthenticated"


class Forbidden(LilyError):
    code = "forbidden"


class VersionConflict(LilyError):
    """The asset is not at the version the caller expected."""

    code = "version_conflict"


class KeyReused(LilyError):
    """An Idempotency-Key came back with another payload."""

    code = "idempotency_key_reused"


class KeyInFlight(LilyError):
    """The first request with this Idempotency-Key is still being answered."""

    code = "idempotency_key_in_flight"
    retryable = True


class NotVisibleYet(LilyError):
    """The event was accepted and is safe, but was not applied within the time limit."""

    code = "not_visible_yet"
    retryable = True


class TooManyRequests(LilyError):
    """Asked too often; `retry_after` says in how many seconds it may be tried again."""

    code = "too_many_requests"
    retryable = True


class StillInUse(LilyError):
    """It cannot go before something else has ended."""

    code = "still_in_use"


class AlreadyExists(LilyError):
    """Something of that name is there already."""

    code = "already_exists"


class Unavailable(LilyError):
    """A part Lily depends on does not answer; nothing was accepted."""

    code = "unavailable"
    retryable = True


class QuotaExceeded(LilyError):
    """The tenant asked for more than it may have; nothing was accepted. `retry_after` is in seconds."""

    code = "quota_exceeded"
    retryable = True


class MisconfiguredError(LilyError):
    """Lily cannot start like this; the message names the setting or the command that mends it."""

    code = "misconfigured"
