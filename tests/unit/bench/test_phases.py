"""The mean time of a batch's phases between two looks at the metrics."""

from __future__ import annotations

from bench.kit.phases import phases_between, read_samples


def exposition(batches: int, seconds: float, applied: int) -> str:
    lines = ["# TYPE lily_batch_phase_seconds histogram"]
    for phase in ("collect", "copy", "merge", "commit"):
        labels = f'lane="structural",phase="{phase}"'
        lines += [
            f'lily_batch_phase_seconds_bucket{{{labels},le="+Inf"}} {batches}',
            f"lily_batch_phase_seconds_count{{{labels}}} {batches}",
            f"lily_batch_phase_seconds_sum{{{labels}}} {seconds}",
        ]
    lines += [
        "# TYPE lily_events_applied_total counter",
        f'lily_events_applied_total{{lane="structural"}} {applied}',
    ]
    return "\n".join(lines) + "\n"


def test_phases_are_the_mean_of_the_batches_between_two_looks() -> None:
    before, after = read_samples(exposition(10, 1.0, 1000)), read_samples(exposition(20, 3.0, 6000))
    assert phases_between(before, after, "structural") == {
        "batches": 10,
        "events_per_batch": 500.0,
        "mean_s": {"collect": 0.2, "copy": 0.2, "merge": 0.2, "commit": 0.2, "all": 0.8},
    }


def test_a_lane_without_batches_has_no_phases() -> None:
    samples = read_samples(exposition(10, 1.0, 1000))
    assert phases_between(samples, samples, "leaf") == {"batches": 0, "events_per_batch": None, "mean_s": {}}
