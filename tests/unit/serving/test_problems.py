"""Every error has its place in the table of problems."""

from __future__ import annotations

import importlib
import pkgutil

import lily
from lily.domain.errors import InvalidInput, LilyError
from lily.serving.rest.problems import STATUS, describe


def all_errors() -> set[type[LilyError]]:
    for package in ("access", "domain", "ingest", "serving"):
        root = importlib.import_module(f"{lily.__name__}.{package}")
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            importlib.import_module(module.name)
    found: set[type[LilyError]] = set()
    waiting: list[type[LilyError]] = [LilyError]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update(below)
        waiting.extend(below)
    return found


def test_every_error_code_has_a_status() -> None:
    abstract = {"error", "misconfigured"}  # never raised while a request is answered
    public = {error.code for error in all_errors() if error.__module__ == "lily.domain.errors"}
    assert public - abstract <= set(STATUS)


def test_a_problem_shows_where_and_what_but_no_other_values() -> None:
    errors = [{"pointer": "/a", "detail": "d"}]
    problem = describe(InvalidInput("m", errors=errors, secret="s"))
    assert problem == {
        "type": "/problems/invalid_input",
        "title": "Invalid input",
        "status": 422,
        "detail": "m",
        "code": "invalid_input",
        "errors": errors,
    }
