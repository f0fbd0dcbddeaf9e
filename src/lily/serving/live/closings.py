"""Why a connection is closed, and what its reader can do about it."""

from __future__ import annotations

from enum import IntEnum

from lily.domain.errors import (
    Forbidden,
    InvalidInput,
    LilyError,
    QuotaExceeded,
    TooManyRequests,
    Unauthenticated,
)


class Code(IntEnum):
    """Codes from 4000 on are ours (RFC 6455)."""

    GOING_AWAY = 1001
    TRY_AGAIN = 1013
    MALFORMED = 4400
    UNAUTHENTICATED = 4401
    FORBIDDEN = 4403
    TOO_LATE = 4409
    CURSOR_TOO_OLD = 4410
    TOO_SLOW = 4413
    TOO_MANY = 4429


_CODES: tuple[tuple[type[LilyError], Code], ...] = (
    (InvalidInput, Code.MALFORMED),
    (Unauthenticated, Code.UNAUTHENTICATED),
    (Forbidden, Code.FORBIDDEN),
    (QuotaExceeded, Code.TOO_MANY),
    (TooManyRequests, Code.TOO_MANY),
)
#: A close frame takes 123 bytes of reason.
_MOST_BYTES = 123


class Closing(Exception):
    """Ends a connection; the reason says what to do."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason

    @property
    def fitted(self) -> str:
        return self.reason.encode()[:_MOST_BYTES].decode(errors="ignore")


def closing_of(error: LilyError) -> Closing:
    code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.TRY_AGAIN)
    return Closing(code, error.message)


def too_slow() -> Closing:
    return Closing(Code.TOO_SLOW, "changes come faster than you read; connect again with your last cursor")


def too_old() -> Closing:
    advice = "read what you need again, then subscribe without a cursor"
    return Closing(Code.CURSOR_TOO_OLD, f"the cursor is too old; {advice}")


def expired() -> Closing:
    return Closing(
        Code.UNAUTHENTICATED, "the token has expired; connect again with a new one and your last cursor"
    )


def too_late() -> Closing:
    return Closing(Code.TOO_LATE, "a cursor comes first, within 3 seconds; connect again and send it at once")


def too_many() -> Closing:
    return Closing(Code.TOO_MANY, "there are too many connections here; close some, or try again later")
