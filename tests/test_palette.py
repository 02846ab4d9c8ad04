"""One colour for one meaning: the inspector, the page to send and the terminal show the palette's."""

import re
from pathlib import Path

import pytest

from ebbtide import palette, window_usage

ROOT = Path(__file__).resolve().parents[1]
NAMES = {
    "ours": "accent",
    "limit": "bad",
    "trigger": "warn",
    "edit": "edit",
    "summary": "fold",
    "good": "good",
    "bad": "bad",
}


def variables(path):
    """The values that each custom property has in a style sheet, in order: dark or light first, as the sheet does."""
    found = {}
    for name, value in re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", (ROOT / path).read_text(encoding="utf-8")):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize(("name", "variable"), NAMES.items())
def test_the_inspector_has_the_palettes_colours(name, variable):
    assert variables("web/src/style.css")[variable] == [palette.DARK[name], palette.LIGHT[name]]


@pytest.mark.parametrize("part", palette.PARTS)
def test_a_part_of_a_request_has_one_colour_in_the_inspector_and_in_a_terminal(part):
    assert variables("web/src/style.css")[f"part-{part.replace(' ', '-')}"][0] == palette.PARTS[part]
    assert window_usage._COLOURS[part] == palette.PARTS[part]


def test_the_page_to_send_has_the_palettes_colours():
    sheet = variables("src/ebbtide/fronts/cli/html_report.css")

    for name, variable in {"ours": "with", "raw": "without", "good": "good", "bad": "bad"}.items():
        assert sheet[variable] == [palette.LIGHT[name], palette.DARK[name]]
