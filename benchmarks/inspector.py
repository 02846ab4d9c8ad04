"""How soon the inspector shows a long session: `python benchmarks/inspector.py [--calls 3000]`.

It writes a session of that many billed calls, opens it from the list in Chromium, and prints the milliseconds from the
click until the title, the first rows of the request, and the figures of the whole session are drawn; medians of five.
The first figure is what a reader waits for; the others stream in. It needs Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from ebbtide import Context

REPEATS = 5
MARKS = {
    "title and frame": "document.querySelector('.title h1') && document.querySelector('.timeline')",
    "rows of the request": "document.querySelector('.item:not(.ghost)')",
    "figures of the session": "document.querySelector('.story:not(.faint)') && document.querySelector('.chart canvas')",
}
"""What is looked for on every frame."""
_WATCH = """() => {
  window.seen = {};
  document.addEventListener("click", () => {
    const start = performance.now();
    const look = () => {
      for (const [name, ready] of Object.entries(MARKS))
        if (!(name in seen) && ready()) requestAnimationFrame(() => { seen[name] ??= performance.now() - start; });
      requestAnimationFrame(look);
    };
    look();
  }, { capture: true, once: true });
}"""


def write_session(store: Path, calls: int) -> None:
    now = [1_700_000_000.0]
    context = Context(store=store, session="long", model="claude-sonnet-4-5", window=200_000, clock=lambda: now[0])
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read every file."}]
    for n in range(calls):
        now[0] += 10
        ready = context.prepare({"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": messages})
        use = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"src/f{n}.py"}}
        usage = {"input_tokens": 50, "output_tokens": 30, "cache_read_input_tokens": ready.report.tokens_after}
        context.record({"type": "message", "role": "assistant", "content": [use], "usage": usage})
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"line {n} of the file\n" * 200}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


def measure(browser: Any, store: Path) -> dict[str, float]:
    """Open the session once, in a new server and a new page."""
    command = [sys.executable, "-m", "ebbtide", "ui", "--store", str(store), "--no-clients"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            page = browser.new_page()
            page.set_default_timeout(300_000)
            page.goto(server.stdout.readline().strip())
            page.wait_for_selector(".session")
            marks = ", ".join(f"{name!r}: () => {ready}" for name, ready in MARKS.items())
            page.evaluate(_WATCH.replace("MARKS", f"({{{marks}}})"))
            page.locator(".session").click()
            page.wait_for_selector(".story:not(.faint)")
            page.wait_for_selector(".chart canvas")
            page.wait_for_timeout(300)
            seen: dict[str, float] = page.evaluate("window.seen")
            page.close()
            return seen
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--store", type=Path, help="where to keep the session, to use it again")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = args.store or Path(folder)
        if not any(store.rglob("*.jsonl")):
            write_session(store, args.calls)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        runs = [measure(browser, store) for _ in range(REPEATS)]
        browser.close()
    for name in MARKS:
        times = sorted(run[name] for run in runs)
        print(f"{name}: {statistics.median(times):.0f} ms, median of {REPEATS} ({times[0]:.0f} to {times[-1]:.0f})")


if __name__ == "__main__":
    main()
