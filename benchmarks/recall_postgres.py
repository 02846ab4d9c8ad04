"""Recall on a database: our own index, built from its logs, or PostgreSQL's full-text search? No model is asked.

    python benchmarks/recall_postgres.py [--data DIR] [--every 6]

The same points and questions as `recall.py` and `questions.py`, in one run: with a folder; with a database and the
index that each process builds from its logs; and with a table in the database that has every text and its `tsvector`,
of the configuration `simple` or `english`, asked with all words of a query joined by "or" and ranked by `ts_rank_cd`.
PostgreSQL has no parser for Chinese without an extension, and trigrams need one, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import questions

import recall

TESTS = str(Path(__file__).resolve().parents[1] / "tests")
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

import ebbtide  # noqa: E402
from ebbtide.store import DirectoryStore, Store, open_store  # noqa: E402
from postgres_server import PostgresServer, start_server  # noqa: E402

_WORD = re.compile(r"[\w./-]+")


class FullText:
    """A table of texts, searched by the server."""

    def __init__(self, server: PostgresServer, configuration: str, texts: Callable[[], dict[str, str]]) -> None:
        self._connection, self._texts, self._known = server.connect("fulltext"), texts, set[str]()
        self._configuration = configuration
        self._connection.execute("DROP TABLE IF EXISTS entry")
        self._connection.execute("CREATE TABLE entry (handle text PRIMARY KEY, words tsvector)")
        self._connection.execute("CREATE INDEX ON entry USING gin (words)")

    def search(self, query: str, *, limit: int = recall.TOP) -> list[Any]:
        texts = self._texts()
        for handle, text in texts.items():
            if handle not in self._known:
                self._known.add(handle)
                # A tsvector has at most a megabyte, and no NUL.
                values = (handle, self._configuration, text.replace("\0", " ")[:400_000])
                self._connection.execute("INSERT INTO entry VALUES (%s, to_tsvector(%s::regconfig, %s))", values)
        words = " or ".join(dict.fromkeys(_WORD.findall(query)[:60]))
        rows = self._connection.execute(
            "SELECT handle FROM entry, websearch_to_tsquery(%s::regconfig, %s) q WHERE words @@ q "
            "ORDER BY ts_rank_cd(words, q, 1) DESC LIMIT %s",
            (self._configuration, words, limit),
        ).fetchall()
        return [SimpleNamespace(handle=handle, total=len(texts[handle]), message=_number(handle)) for (handle,) in rows]

    def read(self, handle: str, start: int = 0, end: int | None = None) -> Any:
        return SimpleNamespace(text=self._texts()[handle][start:end])

    def recall(self, query: str, *, limit: int) -> list[Any]:
        return self.search(query, limit=limit)


def _number(handle: str) -> int:
    return int(handle) if handle.isdecimal() else -1


def identifiers(data: Path, every: int, open_it: Callable[[str], Store], make: Any) -> dict[str, Any]:
    whole = recall.Tally()
    for path in sorted(data.glob("*/*.jsonl.gz"))[::every]:
        with tempfile.TemporaryDirectory() as folder:
            whole.add(recall.measure(path, open_it(folder), make))
    return recall.shares(whole) | {"cpu_ms_p50": recall.times_of(whole.times)["cpu_p50"]}


def plain(data: Path, remember: questions.Remember) -> dict[str, float]:
    sets = {"memorybank": questions.memorybank, "hindsight-zh-en": questions.hindsight}
    return {
        f"{name} {language}": measure(data / name, language, remember).figures()["found"]
        for name, measure in sets.items()
        for language in questions.LANGUAGES
    }


def run(data: Path, every: int) -> dict[str, Any]:
    server = start_server(os.getpid())
    server.create("fulltext")

    def in_database(turns: Sequence[tuple[str, str]]) -> Any:
        context = ebbtide.Context(window=1_000_000, store=server.database_at(tempfile.mkdtemp()))
        messages = [{"role": role, "content": text} for role, text in turns]
        context.prepare({"model": "any", "max_tokens": 1, "messages": messages})
        return context

    def by_server(configuration: str) -> Any:
        def remember(turns: Sequence[tuple[str, str]]) -> FullText:
            texts = {str(n): text for n, (_, text) in enumerate(turns)}
            return FullText(server, configuration, lambda: texts)

        return remember

    def folder(place: str) -> Store:
        return DirectoryStore(place, durable=False)

    def database(place: str) -> Store:
        return open_store(server.database_at(place), durable=False)

    found: dict[str, Any] = {}
    found["folder"] = identifiers(data, every, folder, recall.search_folder) | plain(data, questions.remember)
    found["database, our index"] = identifiers(data, every, database, recall.search_folder) | plain(data, in_database)
    for name in ("simple", "english"):

        def make(session: recall.Session, _: Store, name: str = name) -> FullText:
            return FullText(server, name, lambda: session.texts)

        found[f"database, full text `{name}`"] = identifiers(data, every, folder, make) | plain(data, by_server(name))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=recall.DATA)
    parser.add_argument("--every", type=int, default=6, help="a sample of every Nth recording")
    args = parser.parse_args()
    print(json.dumps(run(args.data, args.every), indent=1))


if __name__ == "__main__":
    main()
