"""Joins what was accepted with what became visible, and says how long it took: numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

#: The layout of event ids (lily.domain.event_ids): the last ten bits are the place within the batch.
_INDEX_BITS = np.uint64(10)
_INDEX_MASK = np.uint64(1023)
_NO_KEY = np.uint64(0)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Receipts:
    """Accepted requests: the id of each batch, its size, when it was due and when it was accepted."""

    ids: bytes
    sizes: NDArray[np.int64]
    due: Floats
    accepted: Floats

    @property
    def events(self) -> int:
        return int(self.sizes.sum())


@dataclass(frozen=True)
class Sightings:
    """What the reader saw: event ids in the order they came, and for each look when and how many."""

    ids: bytes
    looked_at: Floats
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Joined:
    """One entry per accepted event; `visible` is NaN for an event that was never seen."""

    due: Floats
    accepted: Floats
    visible: Floats
    seen_again: int

    @property
    def unseen(self) -> int:
        return int(np.isnan(self.visible).sum())

    def between(self, start: float, end: float) -> Joined:
        """Only the events that were due in this span of time."""
        of_span = (self.due >= start) & (self.due < end)
        return Joined(self.due[of_span], self.accepted[of_span], self.visible[of_span], self.seen_again)


def join(receipts: Receipts, sightings: Sightings) -> Joined:
    """Events that nobody accepted (another client's) are passed over."""
    batch_keys, _ = _split(receipts.ids)
    order = np.argsort(batch_keys, kind="stable")
    in_order = batch_keys[order]
    if len(in_order) and (in_order[1:] == in_order[:-1]).any():
        raise ValueError("two requests were answered with the same event id")
    keys, indexes = _split(sightings.ids)
    places = np.searchsorted(in_order, keys)
    known = np.append(in_order, _NO_KEY)[places] == keys
    firsts = np.cumsum(receipts.sizes) - receipts.sizes
    events = firsts[order[places[known]]] + indexes[known]
    return _first_sightings(receipts, events, np.repeat(sightings.looked_at, sightings.counts)[known])


def _first_sightings(receipts: Receipts, events: NDArray[np.int64], stamps: Floats) -> Joined:
    visible = np.full(receipts.events, np.nan)
    visible[events[::-1]] = stamps[::-1]  # the first sighting is written last
    due, accepted = np.repeat(receipts.due, receipts.sizes), np.repeat(receipts.accepted, receipts.sizes)
    return Joined(due, accepted, visible, len(events) - len(np.unique(events)))


def _split(ids: bytes) -> tuple[Keys, NDArray[np.int64]]:
    """For each id a number for its batch, mixed from the 118 bits its members share, and its index."""
    halves = np.frombuffer(ids, dtype=">u8").reshape(-1, 2).astype(np.uint64)
    with np.errstate(over="ignore"):
        keys = halves[:, 0] * _MIX + (halves[:, 1] >> _INDEX_BITS)
    return keys, (halves[:, 1] & _INDEX_MASK).astype(np.int64)


def percentiles(seconds: Floats) -> dict[str, float | None]:
    """p50_s, p99_s and max_s of the values there are; None when there are none."""
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        return {"p50_s": None, "p99_s": None, "max_s": None}
    p50, p99, most = (round(float(value), 4) for value in np.percentile(known, [50, 99, 100]))
    return {"p50_s": p50, "p99_s": p99, "max_s": most}
