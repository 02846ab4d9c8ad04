"""The site builds without a warning, has a page for each way in and an entry for all that the code offers, and loads
nothing from elsewhere."""

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock
from scripts.reference import parsers

import ebbtide
from ebbtide.config_keys import KEY_BY_VARIABLE, KEYS
from ebbtide.fronts.cli.command_line import command_briefs
from ebbtide.passes import PASSES
from ebbtide.policy import PRESETS
from ebbtide.policy.adjust import pass_name

ROOT = Path(__file__).resolve().parents[1]
WAYS_IN = ("library", "sdk", "proxy", "run", "chat", "mcp")
PATIENCE = 120_000  # milliseconds: a busy machine is slow, and no test asserts a time
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Read(HTMLParser):
    """What a page loads by itself, where it leads to, the anchors it has, and its words, whole and by section."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.ids, self.text, self.sections = [], [], set(), [], {}
        self.comments, self._section = [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.ids.add(told.get("id"))
        if tag in ("h2", "h3"):
            self._section = self.sections[told.get("id")] = []
        if tag in ("img", "script", "iframe", "source", "video", "object") and (told.get("src") or told.get("data")):
            self.loads.append(told.get("src") or told["data"])
        if tag == "link" and told.get("rel") not in ("next", "prev", "canonical"):
            self.loads.append(told["href"])
        if tag == "a" and told.get("href"):
            self.links.append(told["href"])

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_data(self, data):
        self.text.append(data)
        self._section.append(data)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Built once, also where several workers run the tests."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "site"
    with FileLock(f"{place}.lock", timeout=280):
        if not (place / "index.html").exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
            env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
            built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=270)
            assert built.returncode == 0, built.stderr
    return place


@pytest.fixture(scope="session")
def pages(site):
    return {str(path.relative_to(site)): Read(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_page_of_the_docs_is_a_page_of_the_site_and_in_its_menu(site, pages):
    written = {str(path.relative_to(ROOT / "docs").with_suffix(".html")) for path in (ROOT / "docs").rglob("*.md")}
    menu = {os.path.normpath(link) for link in pages["index.html"].links if "://" not in link}

    assert {f"how-to/{name}.html" for name in WAYS_IN} <= written
    assert written | {"architecture.html", "contributing.html", "changelog.html", "how-to/examples.html"} == set(pages)
    assert set(pages) <= menu


def test_a_pages_images_and_scripts_exist_and_are_served_by_the_site(site, pages):
    assert len(pages["index.html"].loads) > 4
    for name, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{name} loads {address}"
            assert (site / name).parent.joinpath(unquote(urlsplit(address).path)).is_file(), f"{name} shows {address}"


def test_links_lead_to_existing_pages_and_anchors(site, pages):
    """Also those that are made: from signatures, and from files of the repository to the pages that they became."""
    for name, page in pages.items():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or not (to.path or to.fragment):
                continue
            aim = os.path.normpath(Path(name).parent / unquote(to.path)) if to.path else name
            assert aim == "." or (site / aim).exists(), f"{name} leads to {link}"
            assert not to.fragment or aim not in pages or unquote(to.fragment) in pages[aim].ids, f"{name}: {link}"


def test_style_sheets_and_pictures_load_nothing_from_elsewhere(site):
    files = [*site.rglob("*.css"), *site.rglob("*.svg")]
    foreign = re.compile(r"""(?:url\(|@import|href=)\s*["']?(?:https?:)?//""")

    assert files
    assert not [file for file in files if foreign.search(file.read_text(encoding="utf-8"))]


def test_no_part_of_a_page_was_left_to_be_generated(pages):
    assert not [name for name, page in pages.items() if [one for one in page.comments if "generated" in one]]
    assert not [name for name, page in pages.items() if re.search(r"^::: ", "".join(page.text), re.MULTILINE)]


def test_every_public_name_has_an_entry(pages):
    page = pages["reference/api.html"]

    assert {f"ebbtide.{name}" for name in ebbtide.__all__} <= page.ids
    assert {"ebbtide.Context.prepare", "ebbtide.Edit.reason", "ebbtide.Event.kind"} <= page.ids
    assert not [name for name in ebbtide.__all__ if name != "PRESETS" and not getattr(ebbtide, name).__doc__]


def test_every_command_and_every_option_of_it_has_an_entry(pages):
    sections = pages["reference/cli.html"].sections
    written = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

    assert parsers().keys() == command_briefs().keys() > {"fit", "replay", "mcp"}
    for name, parser in parsers().items():
        shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
        options = [action for action in shown if action.option_strings and action.dest != "help"]
        told = "".join(sections[f"ebb-{name}"])
        assert f"`ebb {name}" in written, f"the table of commands has no ebb {name}"
        assert command_briefs()[name]
        assert parser.description
        assert not [one for action in options for one in action.option_strings if one not in told]


def test_every_setting_preset_and_pass_has_an_entry(pages):
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| `(\w+)` \| (?:`(EBB_\w+)`)? ?\| .* \| (yes|no) \|$", page, re.MULTILINE)
    variables = {key: name for name, key in KEY_BY_VARIABLE.items()} | {"proxy": "EBB_PROXY_TOKEN"}

    assert written == [(name, variables.get(name, ""), "yes" if key.safe else "no") for name, key in KEYS.items()]
    assert "policy\n\ndefault" in re.sub(r"\n+", "\n\n", "".join(pages["reference/configuration.html"].text))
    assert set(PRESETS) <= pages["reference/presets.html"].ids
    assert {pass_name(edit_pass) for edit_pass in PASSES} <= pages["reference/passes.html"].ids
    for value in (f"{PRESETS['default'].levels(200_000, 8_000).auto:,}", "keep_results = 0"):
        assert value in "".join(pages["reference/presets.html"].text)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the site is not looked at")
def test_a_reader_searches_and_finds_and_nothing_is_fetched_from_elsewhere(site):
    from playwright.sync_api import sync_playwright

    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    asked, errors = [], []
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
            )
            page = browser.new_page(viewport={"width": 390, "height": 844})
            page.set_default_timeout(PATIENCE)
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"{base}index.html")
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            overhang = page.evaluate(wide)
            page.set_viewport_size({"width": 1280, "height": 900})
            # Key by key: words that are put there at once are only seen if that is done within a millisecond.
            page.locator("[data-md-component=search-query]").press_sequentially("overflowed")
            found = page.wait_for_selector(".md-search-result__link[href*='h=overflowed']", state="attached")
            title = found.get_attribute("href")
            browser.close()
    finally:
        server.shutdown()

    assert overhang == 0
    assert "api.html" in title or "library.html" in title or "compact.html" in title
    assert not errors
    assert not [url for url in asked if not url.startswith((base, "data:", "blob:"))]


def test_packages_that_only_build_the_site_are_pinned_as_the_tests_pin_them():
    pins = {
        name: dict(
            re.findall(r"^([\w.-]+)==([^ ;]+)", (ROOT / "requirements" / name).read_text(encoding="utf-8"), re.M)
        )
        for name in ("dev.txt", "docs.txt")
    }

    assert "mkdocs-material" in pins["docs.txt"]
    assert pins["docs.txt"].items() <= pins["dev.txt"].items()
