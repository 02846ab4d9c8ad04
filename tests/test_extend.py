"""`ebbtide.extend` is the one module that people who extend Ebbtide import from."""

import re
from pathlib import Path

from ebbtide import extend

ROOT = Path(__file__).resolve().parents[1]


def test_its_names_are_sorted_and_exist():
    assert extend.__all__ == sorted(extend.__all__)
    assert all(hasattr(extend, name) for name in extend.__all__)


def test_it_exports_all_that_it_imports():
    imported = {name for name in vars(extend) if not name.startswith("_")} - {"annotations"}

    assert imported == set(extend.__all__)


def test_every_name_is_on_the_reference_page():
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    listed = page.partition("## `ebbtide.extend`")[2].partition("\n## ")[0]

    assert set(extend.__all__) <= set(re.findall(r"`(\w+)`", listed))


def test_the_page_on_passes_imports_from_there_alone():
    page = (ROOT / "docs" / "how-to" / "write-a-pass.md").read_text(encoding="utf-8")

    assert set(re.findall(r"from (ebbtide\S*) import", page)) == {"ebbtide.extend"}
