"""What the pictures are drawn from: the example, and the windows that it is played in."""

from __future__ import annotations

from functools import cache

import ebbtide
from ebbtide.core.types import Item
from ebbtide.example import path
from ebbtide.formats import RecordedCall
from ebbtide.wire.reader import Reader

SMALL, LARGE = 100_000, 200_000
"""Windows: one in which the example has to be edited, one in which a fold has to be asked for."""


@cache
def calls() -> tuple[RecordedCall, ...]:
    return tuple(ebbtide.load(path()).requests())


def items_of(body: object) -> tuple[Item, ...]:
    return Reader(estimator=ebbtide.preset("default").estimator).read(body).items  # type: ignore[arg-type]
