"""Every error as a gRPC status; the one place that maps them."""

from __future__ import annotations

import grpc

from lily.domain.errors import LilyError

_CODES = {
    "malformed_request": grpc.StatusCode.INVALID_ARGUMENT,
    "invalid_input": grpc.StatusCode.INVALID_ARGUMENT,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "not_found": grpc.StatusCode.NOT_FOUND,
    "quota_exceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too_many_requests": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "content_too_large": grpc.StatusCode.INVALID_ARGUMENT,
    "already_exists": grpc.StatusCode.ALREADY_EXISTS,
    "still_in_use": grpc.StatusCode.FAILED_PRECONDITION,
    "version_conflict": grpc.StatusCode.FAILED_PRECONDITION,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "not_visible_yet": grpc.StatusCode.DEADLINE_EXCEEDED,
}


def status_of(error: LilyError) -> grpc.StatusCode:
    return _CODES.get(error.code, grpc.StatusCode.INTERNAL)
