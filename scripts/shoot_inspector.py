"""Take screenshots of the inspector for the docs: `python -m scripts.shoot_inspector`.

It needs Chromium, Playwright and a font with Chinese characters (`apt-get install chromium fonts-wqy-microhei`), and
shows the session that ships with Ebbtide, so everybody gets the same pictures. With a folder as its argument, it writes
every view there, at both widths and in both themes, for review; name views after the folder to take only those.
"""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from ebbtide import Context, example
from ebbtide.formats import load

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WINDOW = "40k"
"""Small enough that the example's 76 calls need compactions."""
SIZES = {1280: 860, 390: 844}
WAIT = 120_000

Shot = tuple[str, int, str]
DOCS: tuple[Shot, ...] = (
    ("list", 1280, "light"),
    ("request", 1280, "dark"),
    ("edits", 1280, "light"),
    ("cache", 1280, "dark"),
    ("recall", 1280, "light"),
    ("compare", 1280, "dark"),
    ("stub", 390, "dark"),
)
VIEWS = ("list", "request", "stub", "edits", "fold", "cache", "ledger", "recall", "compare", "help", "chinese")


@contextmanager
def inspector() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tidegauge.jsonl"
        file.write_bytes(gzip.decompress(example.path().read_bytes()))
        _record_sessions(Path(folder) / "store")
        command = [sys.executable, "-m", "ebbtide.fronts.cli.main", "ui", str(file), "--window", WINDOW]
        with subprocess.Popen(
            [*command, "--store", f"{folder}/store", "--no-clients"], stdout=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout is not None
            try:
                yield run.stdout.readline().strip()
            finally:
                run.terminate()


def _record_sessions(store: Path) -> None:
    """Two sessions of ours for the list: the example's calls, as an agent with a store would have made them."""
    calls = list(load(example.path()).requests())
    for session, window, count, hours in (("gauges", 100_000, 76, 3), ("quarry", 64_000, 52, 26)):
        now = [time.time() - hours * 3600]
        context = Context(
            model=calls[0].model, window=window, store=store, session=session, project=f"/home/ada/{session}",
            clock=lambda now=now: now[0],
        )  # fmt: skip
        for call in calls[:count]:
            now[0] += 20
            context.prepare(call.request)
            context.record(call.response)


def shown(page: Any, view: str) -> None:
    """Go from the list to a view, as a person would."""
    page.wait_for_selector(".session")
    page.wait_for_selector(".counting", state="detached")
    if view == "list":
        return
    if view == "chinese":
        page.get_by_text("中文").click()
    page.locator(".session").first.click()
    page.wait_for_selector(".item:not(.ghost)")
    page.wait_for_selector(".chart canvas")
    if view in STEPS:
        STEPS[view](page)
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(400)


def _stub(page: Any) -> None:
    page.locator(".item.stub .fold").first.click()
    page.locator(".originals .fold").nth(1).click()
    page.wait_for_selector(".originals .text")
    _to_views(page)


def _edits(page: Any) -> None:
    page.keyboard.press("2")
    page.locator(".edit > .fold", has_text="Grep").nth(2).click()
    page.wait_for_selector(".diff .gone")
    _to_views(page)


def _fold(page: Any) -> None:
    """The list is long: scroll down until the newest compaction is in it."""
    page.keyboard.press("2")
    page.wait_for_selector(".edit")
    fold = page.locator(".edit > .fold", has_text="summarize")
    while not fold.count():
        page.evaluate("document.getElementById('main').scrollTop += 500")
        page.wait_for_timeout(100)
    fold.first.click()
    page.wait_for_selector(".sides")
    page.locator(".sides").first.evaluate("one => one.scrollIntoView({block: 'center'})")


def _cache(page: Any) -> None:
    page.locator(".stepper button").first.click()
    page.keyboard.press("3")
    page.wait_for_selector(".bill")
    _to_views(page)


def _ledger(page: Any) -> None:
    page.keyboard.press("4")
    page.wait_for_selector(".facts")
    _to_views(page)


def _recall(page: Any) -> None:
    page.keyboard.press("5")
    page.fill(".recall input[type=search]", "datum gauge")
    page.wait_for_selector(".hit mark")
    _to_views(page)


def _compare(page: Any) -> None:
    page.keyboard.press("6")
    page.locator(".compare .main").click()
    page.wait_for_selector(".arm")
    _to_views(page)


def _help(page: Any) -> None:
    page.keyboard.press("?")


def _to_views(page: Any) -> None:
    page.evaluate("document.getElementById('bar').scrollIntoView()")


STEPS = {
    "stub": _stub, "edits": _edits, "fold": _fold, "cache": _cache, "ledger": _ledger, "recall": _recall,
    "compare": _compare, "help": _help,
}  # fmt: skip


def shoot(browser: Any, address: str, shot: Shot, target: Path) -> None:
    view, width, theme = shot
    size = {"width": width, "height": SIZES[width]}
    context = browser.new_context(viewport=size, color_scheme=theme, device_scale_factor=1 if width > 400 else 1.5)
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.goto(address)
    shown(page, view)
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(target, optimize=True)
    context.close()
    print(f"{target.name}: {target.stat().st_size / 1024:.0f} KB")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    wanted = {one for name in sys.argv[2:] for one in name.split(",")} or set(VIEWS)
    everything = [(view, width, theme) for view in VIEWS for width in SIZES for theme in ("dark", "light")]
    with inspector() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for shot in everything if folder else DOCS:
            view, width, theme = shot
            if folder and view in wanted:
                shoot(browser, address, shot, folder / f"{view}-{width}-{theme}.png")
            elif not folder:
                shoot(browser, address, shot, IMAGES / f"inspect-{view}.png")
        browser.close()


if __name__ == "__main__":
    main()
