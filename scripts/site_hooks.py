"""Add to the site what is not in `docs/`: parts generated from the code, the pages at the root, the examples.

Links on pages point to files, so that they work in the repository. Here they are changed to point to the pages of the
site.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from reference import PARTS  # beside this file, which MkDocs puts on the path

ROOT = Path(__file__).resolve().parents[1]
FROM_ROOT = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the root that become pages, and their paths on the site."""
EXAMPLES = "how-to/examples.md"

_PART = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
_MARKED = re.compile(r"^```(console|python) [a-z-]+$", re.MULTILINE)
"""A block marked for our tests: `console run`, or the framework that a test runs it in."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    made = {uri: (ROOT / name).read_text(encoding="utf-8") for name, uri in FROM_ROOT.items()}
    for uri, text in {**made, EXAMPLES: _examples()}.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    with_parts = _PART.sub(lambda found: PARTS[found[1]](), markdown)
    return _MARKED.sub(r"```\1", _led(with_parts, page.file.src_uri))


def _led(text: str, uri: str) -> str:
    """Change links to files of the repository into links to pages of the site."""
    root = {page: name for name, page in FROM_ROOT.items()}
    home = PurePosixPath(root.get(uri, f"docs/{uri}")).parent

    def led(found: re.Match[str]) -> str:
        target, place = found[1], found[2] or ""
        if "://" in target:
            return found[0]
        at = os.path.normpath(home / target)
        if at.startswith("examples/"):
            return _relative(EXAMPLES, uri) + f"#{PurePosixPath(at).stem}"
        page = FROM_ROOT.get(at) or ("index.md" if at == "README.md" else at.removeprefix("docs/"))
        return _relative(page, uri) + place

    return _LINK.sub(led, text)


def _relative(target: str, uri: str) -> str:
    return os.path.relpath(target, PurePosixPath(uri).parent)


def _examples() -> str:
    parts = ["# Examples", "Whole programs of at most 40 lines, in the folder `examples`. They need no key."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        tree = ast.parse(source := path.read_text(encoding="utf-8"))
        code = "".join(source.splitlines(keepends=True)[tree.body[0].end_lineno :]).lstrip()
        parts += [f"## `{path.name}` {{ #{path.stem} }}", ast.get_docstring(tree) or "", f"```python\n{code}```"]
    return "\n\n".join(parts) + "\n"
