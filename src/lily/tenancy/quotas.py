"""How much each tenant may use at this process: buckets in memory, no question asked per request.

A process grants its share of a tenant's quota. Shares follow demand: every second each process tells how much
its busy tenants asked for, and is told its part of the whole (`gateway_beat`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from lily.domain.errors import QuotaExceeded
from lily.domain.tenants import Bucket, Limits, Share
from lily.repositories.postgres.tenants import Tenant

#: A tenant that asks for less than this part of its share needs no other.
_BUSY = 0.5
#: Storage is counted now and then; asking again sooner would be answered the same.
_STORAGE_RETRY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class RateLimit:
    """What the RateLimit headers say of a quota."""

    quota: str
    limit: int
    left: int

    def headers(self) -> dict[str, str]:
        return {
            "ratelimit-policy": f'"{self.quota}";q={self.limit};w=1',
            "ratelimit": f'"{self.quota}";r={self.left};t=1',
        }


class _Meter:
    """The two buckets of one tenant."""

    __slots__ = ("events", "requests")

    def __init__(self, now: float) -> None:
        self.requests = Bucket(0, now)
        self.events = Bucket(0, now)


class Quotas:
    """The buckets of all tenants at this process."""

    def __init__(self, defaults: Limits) -> None:
        self._defaults = defaults
        self._meters: dict[str, _Meter] = {}
        self._shares: Mapping[str, Share] = {}

    def limits(self, tenant: Tenant) -> Limits:
        """The tenant's limits; those it has not of its own are the installation's."""
        return tenant.limits.or_default(self._defaults)

    def admit(self, tenant: Tenant, *, writing: bool) -> RateLimit | None:
        """Count one request; `QuotaExceeded` when there were too many, or too many events before it.

        What is refused here is not parsed, and nobody is asked about it.
        """
        now, limits = time.monotonic(), self.limits(tenant)
        meter = self._meter(tenant, limits, now)
        limit = limits.requests_per_second or 0
        if wait := meter.requests.take(1, now):
            raise _exceeded("requests", limit, wait)
        if writing and (wait := meter.events.wait(now)):
            raise _exceeded("events", limits.events_per_second or 0, wait)
        return RateLimit("requests", limit, int(meter.requests.left(now))) if limit else None

    def refusal(self, tenant: Tenant) -> QuotaExceeded | None:
        """Why the tenant's next request is refused, if it is; it counts as asked for."""
        now, limits = time.monotonic(), self.limits(tenant)
        requests = self._meter(tenant, limits, now).requests
        if not requests.wait(now):
            return None
        return _exceeded("requests", limits.requests_per_second or 0, requests.take(1, now))

    def spend(self, tenant: Tenant, events: int, *, frees: bool) -> None:
        """Count events about to be recorded; `QuotaExceeded` when rate or storage does not allow them.

        Events that only free storage are not refused for its sake.
        """
        now, limits = time.monotonic(), self.limits(tenant)
        if not frees:
            _check_storage("assets", tenant.assets, limits.max_assets)
            _check_storage("bytes", tenant.bytes, limits.max_bytes)
        if wait := self._meter(tenant, limits, now).events.take(events, now):
            raise _exceeded("events", limits.events_per_second or 0, wait)

    def demands(self) -> dict[str, tuple[float, float]]:
        """What the busy tenants asked for since the last call: requests and events."""
        asked = {}
        for tenant_id, meter in self._meters.items():
            if _is_busy(meter.requests) or _is_busy(meter.events):
                asked[tenant_id] = (meter.requests.asked, meter.events.asked)
            meter.requests.asked = meter.events.asked = 0.0
        return asked

    def set_shares(self, shares: Mapping[str, Share]) -> None:
        self._shares = shares

    def _meter(self, tenant: Tenant, limits: Limits, now: float) -> _Meter:
        meter = self._meters.get(tenant.tenant_id)
        if meter is None:
            meter = self._meters[tenant.tenant_id] = _Meter(now)
        share = self._shares.get(tenant.tenant_id) or self._shares.get("") or Share()
        meter.requests.set_rate((limits.requests_per_second or 0) * share.requests, now)
        meter.events.set_rate((limits.events_per_second or 0) * share.events, now)
        return meter


def _is_busy(bucket: Bucket) -> bool:
    return bool(bucket.rate) and bucket.asked > _BUSY * bucket.rate


def _check_storage(quota: str, used: int, limit: int | None) -> None:
    if limit and used >= limit:
        raise QuotaExceeded(
            f"the tenant has {used:,} {quota} and may have {limit:,}; purge what is not needed, or ask the "
            "operator for more",
            quota=quota,
            limit=limit,
            retry_after=_STORAGE_RETRY_SECONDS,
        )


def _exceeded(quota: str, limit: int, wait: float) -> QuotaExceeded:
    return QuotaExceeded(
        f"more than {limit:,} {quota} a second; nothing was accepted, come back after Retry-After",
        quota=quota,
        limit=limit,
        retry_after=max(1, math.ceil(wait)),
        headers=RateLimit(quota, limit, 0).headers(),
    )
