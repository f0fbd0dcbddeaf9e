"""A caller's trace goes on; a malformed one is replaced."""

from __future__ import annotations

import pytest

from lily.serving.traces import continue_trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_trace_goes_on_under_a_new_span(flags: str) -> None:
    trace = continue_trace(f"00-{TRACE}-{SPAN}-{flags}")
    assert trace.trace_id == TRACE
    assert trace.span_id != SPAN
    assert trace.header == f"00-{TRACE}-{trace.span_id}-{flags}"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "rubbish",
        f"ff-{TRACE}-{SPAN}-00",
        f"00-{'0' * 32}-{SPAN}-00",
        f"00-{TRACE}-{'0' * 16}-00",
        f"00-{TRACE.upper()}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_anything_else_begins_a_new_trace(header: str) -> None:
    trace = continue_trace(header)
    assert trace.trace_id not in (TRACE, "0" * 32)
    assert len(trace.header) == 55
