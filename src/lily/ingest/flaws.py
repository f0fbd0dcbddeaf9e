"""What is wrong in JSON and no type tells: NUL characters, numbers JSON cannot write, too many levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lily.ingest.assets import MAX_METADATA_DEPTH

#: As JSON must write it.
NUL = b"\\u0000"
#: JSON numbers beyond a double's range are read differently by every reader.
_LARGEST = 1e308


def is_plain(value: Any, levels: int = MAX_METADATA_DEPTH) -> bool:
    """Whether a value has neither too many levels nor a number JSON cannot write."""
    children = value.values() if type(value) is dict else value if type(value) is list else ()
    for child in children:
        kind = type(child)
        if kind is str:
            continue
        if kind is dict or kind is list:
            if levels <= 1 or not is_plain(child, levels - 1):
                return False
        elif (kind is float or kind is int) and not -_LARGEST < child < _LARGEST:
            return False
    return True


def find_flaws(value: Any, pointer: str, look_for_nul: bool, level: int = 0) -> Iterator[dict[str, str]]:
    """What pydantic does not see: NUL characters, numbers JSON cannot write, too many levels."""
    if level > MAX_METADATA_DEPTH and isinstance(value, dict | list):
        yield {"pointer": pointer, "detail": f"nested deeper than {MAX_METADATA_DEPTH} levels"}
    elif isinstance(value, dict):
        for key, child in value.items():
            if look_for_nul and "\x00" in key:
                yield {
                    "pointer": pointer,
                    "detail": "a key contains the character U+0000, which is not allowed",
                }
            yield from find_flaws(child, f"{pointer}/{escape(key)}", look_for_nul, level + 1)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from find_flaws(child, f"{pointer}/{index}", look_for_nul, level + 1)
    elif isinstance(value, float | int) and not -_LARGEST < value < _LARGEST:
        yield {"pointer": pointer, "detail": "not a number, or too large a one; allowed: up to 1e308"}
    elif look_for_nul and isinstance(value, str) and "\x00" in value:
        yield {"pointer": pointer, "detail": "the character U+0000 is not allowed"}


def escape(step: str) -> str:
    """A name as a step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")
