"""How large an installation is, with all its requirements: `python benchmarks/install_size.py [--json]`.

It measures a distribution and everything that it requires without extras, as installed here: bytes of the files in
their records, without byte code. For Ebbtide it measures the files of the package, because it may run from source.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

SUBJECTS = {
    "ebbtide": ("ebbtide", ["rich"]),
    "langchain": ("", ["langchain"]),
    "pydantic-ai-harness": ("", ["pydantic-ai-harness"]),
    "haystack-ai": ("", ["haystack-ai"]),
}
"""A package that is measured by its folder, and the distributions that it requires."""


def needed(names: list[str]) -> dict[str, Distribution]:
    """Return these and everything they require. What is not installed here is for other platforms, or optional."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        for requirement in found[name].requires or ():
            asked, _, marker = requirement.partition(";")
            if "extra" not in marker:
                waiting.append(re.split(r"[\s\[(<>=!~]", asked.strip(), maxsplit=1)[0])
    return found


def size_of(one: Distribution) -> int:
    places = (Path(str(file.locate())) for file in one.files or () if file.suffix != ".pyc")
    return sum(place.stat().st_size for place in places if place.is_file())


def folder_size(package: str) -> int:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return 0
    files = Path(spec.origin).parent.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and "__pycache__" not in file.parts)


def measured() -> dict[str, dict[str, int]]:
    sizes: dict[str, dict[str, int]] = {}
    for name, (package, names) in SUBJECTS.items():
        found = needed(names)
        if not package and name not in found:
            continue
        own = folder_size(package) if package else size_of(found[name])
        every = sum(size_of(one) for one in found.values()) + (own if package else 0)
        sizes[name] = {"own": own, "with_requirements": every, "distributions": len(found) + bool(package)}
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    sizes = measured()
    if parser.parse_args().json:
        json.dump(sizes, sys.stdout, indent=1)
        return
    print(f"{'MB':24}{'own':>8}{'with all it needs':>20}{'distributions':>16}")
    for name, one in sizes.items():
        print(f"{name:24}{one['own'] / 1e6:8.1f}{one['with_requirements'] / 1e6:20.1f}{one['distributions']:16}")


if __name__ == "__main__":
    main()
