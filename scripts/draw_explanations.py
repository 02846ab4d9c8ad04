"""Draw the pictures of the explanations: `python -m scripts.draw_explanations`. Figures come from the code and from
replaying the example; a picture that is only a sketch says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.explanations.cached import drawn_cache
from scripts.explanations.fold import drawn_fold
from scripts.explanations.levels import drawn_levels
from scripts.explanations.life import drawn_life
from scripts.explanations.ways import drawn_ways

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
DRAWINGS: Mapping[str, Callable[[], str]] = {
    "life-of-a-result.svg": drawn_life,
    "fold.svg": drawn_fold,
    "cache.svg": drawn_cache,
    "levels.svg": drawn_levels,
    "ways-in.svg": drawn_ways,
}


def main() -> None:
    for name, drawn in DRAWINGS.items():
        (IMAGES / name).write_text(drawn(), encoding="utf-8")
        print(IMAGES / name)


if __name__ == "__main__":
    main()
