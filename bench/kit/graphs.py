"""The graph `bench lineage` runs on: a million assets, two million edges, always the same.

Three parts, all of assets with two parents each, so that most paths have a sibling (diamonds everywhere):
a wide cone (100,000 assets in ten layers below one), a long one (25,000 in fifty layers below one) and
pipelines of fifty assets, which is what most of a catalog looks like.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

SEED = 20_260_101
WIDE, LONG, SMALL = "wide", "long", "pipe-0"
_WIDE_LAYERS = (10, 90, 400, 1_500, 4_000, 9_000, 15_000, 20_000, 25_000, 25_000)
_LONG_LAYERS = (500,) * 50
_PIPELINE = 50
_CHAIN = 10

Edge = tuple[str, str]


@dataclass(frozen=True)
class GraphSize:
    """How many assets there are in all; the cones stay as they are."""

    assets: int = 1_000_000

    @property
    def pipelines(self) -> int:
        return max(1, (self.assets - sum(_WIDE_LAYERS) - sum(_LONG_LAYERS) - 2 - _CHAIN - 1) // _PIPELINE)


def edges(size: GraphSize) -> Iterator[Edge]:
    """Every edge once, upstream first."""
    dice = random.Random(SEED)
    yield from _cone(dice, WIDE, _WIDE_LAYERS)
    yield from _cone(dice, LONG, _LONG_LAYERS)
    yield from ((f"{SMALL}-{n}" if n else SMALL, f"{SMALL}-{n + 1}") for n in range(_CHAIN))
    for number in range(1, size.pipelines + 1):
        yield from _pipeline(dice, number)


def assets(size: GraphSize) -> Iterator[str]:
    """Every asset once."""
    for name, layers in ((WIDE, _WIDE_LAYERS), (LONG, _LONG_LAYERS)):
        yield name
        yield from (f"{name}-{depth}-{n}" for depth, width in enumerate(layers, 1) for n in range(width))
    yield from (f"{SMALL}-{n}" if n else SMALL for n in range(_CHAIN + 1))
    yield from (f"pipe-{p}-{n}" for p in range(1, size.pipelines + 1) for n in range(_PIPELINE))


def _cone(dice: random.Random, name: str, layers: tuple[int, ...]) -> Iterator[Edge]:
    above = [name]
    for depth, width in enumerate(layers, 1):
        layer = [f"{name}-{depth}-{n}" for n in range(width)]
        for below in layer:
            for parent in dice.sample(above, min(2, len(above))):
                yield parent, below
        above = layer


def _pipeline(dice: random.Random, number: int) -> Iterator[Edge]:
    for n in range(1, _PIPELINE):
        for parent in dice.sample(range(n), min(2, n)):
            yield f"pipe-{number}-{parent}", f"pipe-{number}-{n}"
