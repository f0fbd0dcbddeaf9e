"""The report of a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.kit.processes import Usage, spent
from bench.kit.reports import report


def test_figures_are_at_the_top_of_the_json_with_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report("a title", {"rate": 5.0, "phases": {"merge": 0.1}}, tmp_path / "figures.json")
    written = json.loads((tmp_path / "figures.json").read_text())
    assert written["rate"] == 5.0
    assert written["machine"]["cores"] >= 1
    assert "phases.merge" in capsys.readouterr().out


def test_a_restarted_process_counts_from_its_start() -> None:
    assert spent(
        {"kafka": Usage(10.0), "streams": Usage(50.0)}, {"kafka": Usage(12.5), "streams": Usage(3.0)}
    ) == {
        "kafka": 2.5,
        "streams": 3.0,
    }


def test_pss_of_a_sum_is_unknown_when_one_part_is() -> None:
    assert (Usage(1.0, 10, 5) + Usage(1.0, 10, None)).pss_bytes is None
