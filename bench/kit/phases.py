"""Where a batch spends its time, from the platform's own histograms before and after a run."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

PHASES = ("collect", "copy", "merge", "commit")
_HISTOGRAM = "lily_batch_phase_seconds"
_APPLIED = "lily_events_applied_total"

Samples = Mapping[tuple[str, str, str], float]


def read_samples(exposition: str) -> dict[tuple[str, str, str], float]:
    """Sums and counts by (sample, lane, phase)."""
    wanted = {f"{_HISTOGRAM}_sum", f"{_HISTOGRAM}_count", _APPLIED}
    samples: dict[tuple[str, str, str], float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name in wanted:
                labels = sample.labels
                samples[sample.name, labels.get("lane", ""), labels.get("phase", "")] = sample.value
    return samples


def phases_between(before: Samples, after: Samples, lane: str) -> dict[str, object]:
    """Batches, events per batch, and the mean seconds of each phase; nothing where nothing was measured."""

    def grown(sample: str, phase: str = "") -> float:
        return after.get((sample, lane, phase), 0.0) - before.get((sample, lane, phase), 0.0)

    batches = grown(f"{_HISTOGRAM}_count", "merge")
    if batches <= 0:
        return {"batches": 0, "events_per_batch": None, "mean_s": {}}
    means = {phase: round(grown(f"{_HISTOGRAM}_sum", phase) / batches, 4) for phase in PHASES}
    return {
        "batches": int(batches),
        "events_per_batch": round(grown(_APPLIED) / batches, 1),
        "mean_s": {**means, "all": round(sum(means.values()), 4)},
    }
