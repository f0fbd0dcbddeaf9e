"""How a process in the background begins: its settings, its logs, and how it says why it cannot run."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from lily.domain.errors import LilyError
from lily.settings import Settings, load_settings
from lily.telemetry import configure_logging, configure_tracing

_log = structlog.get_logger(__name__)


def parser_of(component: str, description: str | None) -> argparse.ArgumentParser:
    """The command line every process has."""
    parser = argparse.ArgumentParser(prog=f"lily-{component}", description=description)
    parser.add_argument("--data-dir", type=Path, required=True)
    return parser


def run_process(component: str, data_dir: Path, run: Callable[[Settings], None]) -> None:
    """Run until it ends; an error of ours is logged and ends the process with 1."""
    try:
        settings = load_settings(data_dir.absolute())
        configure_logging(component, settings.telemetry.log_level)
        configure_tracing(component, settings.telemetry.otlp_endpoint, settings.telemetry.trace_ratio)
        run(settings)
    except LilyError as error:
        _log.error("cannot_run", error=error.message)
        sys.exit(1)


def collect_seldom() -> None:
    """Called when all is loaded: that stays, and is not looked through again for garbage.

    Batches make thousands of short-lived objects; collecting less often saves a tenth of their time.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
