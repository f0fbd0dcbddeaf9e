"""What Lily tells about itself must not stop what it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SAY = """
import structlog
from lily.telemetry import configure_logging
configure_logging("gateway", "INFO")
log = structlog.get_logger("lily.test")
log.debug("not asked for")
log.info("odd", what={("a", 1): b"\\xff"})
log.info("plain", path="\\ud800")
print("went on")
"""


def said(stderr: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", SAY], stdout=subprocess.PIPE, stderr=stderr, text=True)


def test_every_line_is_one_json_object_under_its_loggers_name() -> None:
    done = said(subprocess.PIPE)
    odd, plain = (json.loads(line) for line in done.stderr.splitlines())
    assert "odd" in odd["event"]
    assert {
        "event": "plain",
        "level": "info",
        "logger": "lily.test",
        "component": "gateway",
    }.items() <= plain.items()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is always full here")
def test_a_line_that_cannot_be_written_stops_nobody() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        assert said(full.fileno()).stdout == "went on\n"
