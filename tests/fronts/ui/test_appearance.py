"""The page at both widths, in both themes and both languages, for eyes and hands of all kinds."""

import pytest

from ebbtide.runtime import Context
from fronts.ui.browser_page import looking, needs_chromium, opened, until
from fronts.ui.inspector import library, running
from runtime.sessions import Clock, body

pytestmark = needs_chromium
VIEWS = ("request", "edits", "cache", "ledger", "recall", "compare")
ENDLESS = "水位" * 20 + "verylongword" * 40

_CONTRAST = """() => {
  const parse = (text) => {
    const n = text.match(/[\\d.]+/g).map(Number);
    const [r, g, b] = text.startsWith("color(srgb") ? n.slice(0, 3).map((one) => one * 255) : n;
    return [r, g, b, n[3] ?? 1];
  };
  const over = (top, under) => under.slice(0, 3).map((one, i) => top[i] * top[3] + one * (1 - top[3]));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((one) => one / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const weak = [];
  const walk = (element, back, opacity) => {
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility === "hidden" || element.disabled) return;
    const here = over(parse(style.backgroundColor), back);
    const seen = opacity * Number(style.opacity);
    const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (own && element.getClientRects().length) {
      const colour = parse(style.color);
      const [a, b] = [light(over([...colour.slice(0, 3), colour[3] * seen], here)), light(here)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 600);
      if (ratio < (large ? 3 : 4.5)) weak.push(`${element.className}: ${element.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
    }
    for (const one of element.children) walk(one, here, seen);
  };
  walk(document.body, [255, 255, 255], 1);
  return weak;
}"""
_NAMELESS = """() => [...document.querySelectorAll("button, input, select, [role=img]")]
  .filter((one) => !(one.ariaLabel || one.innerText || one.labels?.length)).map((one) => one.outerHTML.slice(0, 120))"""
_UNMARKED = """() => {
  const style = getComputedStyle(document.activeElement);
  const row = document.activeElement.closest(".row.cursor");
  return document.activeElement !== document.body && style.outlineStyle === "none" && !row
    ? document.activeElement.outerHTML.slice(0, 120) : "";
}"""


def shown(page, view):
    """A view with something open in it."""
    page.keyboard.press(str(VIEWS.index(view) + 1))
    if view == "request":
        page.locator(".item.stub .fold").first.click()
        page.wait_for_selector(".originals .item")
    if view == "edits":
        page.locator(".edit > .fold").last.click()
        page.wait_for_selector(".diff > *:not(.faint)")
    if view == "cache":
        page.wait_for_selector(".onecall .legend")
    if view == "ledger":
        page.wait_for_selector(".facts")
    if view == "recall":
        page.fill(".recall input[type=search]", "datum")
        page.wait_for_selector(".hit mark")
        page.keyboard.press("Escape")
    if view == "compare":
        page.locator(".compare .main").click()
        page.wait_for_selector(".arm")


def sideways(page, width):
    """What sticks out, if the page could be pushed to the side."""
    wide = page.evaluate("[document.documentElement, document.getElementById('main')].map((one) => one.scrollWidth)")
    if max(wide) <= width:
        return []
    return page.evaluate(
        f"[...document.querySelectorAll('main *')].filter((one) => one.getBoundingClientRect().right > {width})"
        ".map((one) => one.className).slice(-5)"
    ) or ["?"]


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_at_either_width(chromium, address, width):
    with looking(chromium, address, width=width) as watched:
        page = watched.page
        assert not sideways(page, width)
        opened(page)
        for view in VIEWS:
            shown(page, view)
            assert not sideways(page, width), view
        assert not watched.misdeeds()


def test_words_without_line_breaks_do_not_stick_out_either(chromium, tmp_path):
    """In a title, a project, a session's name, a model's, a tool's, a file's, a command's, an error's."""
    use = {"type": "tool_use", "id": "t1", "name": ENDLESS[:180], "input": {"file_path": f"/src/{ENDLESS}.py"}}
    run = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": f"cat {ENDLESS}"}}
    results = [{"type": "tool_result", "tool_use_id": one["id"], "content": f"error: {ENDLESS}"} for one in (use, run)]
    messages = [
        {"role": "user", "content": ENDLESS},
        {"role": "assistant", "content": [use, run]},
        {"role": "user", "content": results},
    ]
    context = Context(
        store=tmp_path, session=ENDLESS[:200], project=f"/{ENDLESS}", model=ENDLESS, window=20_000, clock=Clock()
    )
    context.prepare({**body(messages), "model": ENDLESS})
    with running(library(tmp_path)) as address, looking(chromium, address, width=390) as watched:
        page = watched.page
        assert not sideways(page, 390)
        opened(page, "水位")
        for view in ("request", "cache", "ledger", "compare"):
            page.keyboard.press(str(VIEWS.index(view) + 1))
            until(page, "document.querySelector('section > *')")
            assert not sideways(page, 390), view


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_text_contrasts_with_its_background(chromium, address, theme):
    """Contrast of 4.5 to 1, of 3 to 1 where letters are large, as WCAG AA has it."""
    with looking(chromium, address, color_scheme=theme, reduced_motion="reduce") as watched:
        page = watched.page
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert not page.evaluate(_CONTRAST)
        opened(page)
        for view in VIEWS:
            shown(page, view)
            page.mouse.move(0, 0)
            assert not page.evaluate(_CONTRAST), view
        page.keyboard.press("?")
        page.wait_for_selector(".help")
        assert not page.evaluate(_CONTRAST)


def test_every_control_has_a_name_and_shows_the_focus(chromium, address):
    with looking(chromium, address) as watched:
        page = watched.page
        assert not page.evaluate(_NAMELESS)
        opened(page)
        for view in VIEWS:
            shown(page, view)
            assert not page.evaluate(_NAMELESS), view
        page.keyboard.press("1")
        page.evaluate("document.activeElement.blur()")
        reached = set()
        for _ in range(24):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel"))
            assert not page.evaluate(_UNMARKED)
        assert {"Request", "Compare"} <= reached


def test_nothing_moves_for_users_who_prefer_less_motion(chromium, address):
    moving = (
        "[...document.querySelectorAll('*')].filter((e) => !/^0s(, 0s)*$/.test(getComputedStyle(e).transitionDuration))"
    )
    counts = {}
    for wish in ("reduce", "no-preference"):
        with looking(chromium, address, reduced_motion=wish) as watched:
            counts[wish] = watched.page.evaluate(f"{moving}.length")

    assert counts["reduce"] == 0
    assert counts["no-preference"] > 0


def test_the_theme_and_the_language_are_chosen_and_kept(chromium, address):
    with looking(chromium, address, color_scheme="light") as watched:
        page = watched.page
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.keyboard.press("d")
        page.get_by_text("中文").click()
        page.wait_for_selector("h1 >> text=会话")
        page.reload()
        page.wait_for_selector("h1 >> text=会话")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("document.documentElement.lang") == "zh"
        opened(page)

        assert page.locator(".tabs button").all_inner_texts() == ["请求", "编辑", "缓存", "事实", "回忆", "比较"]
