/** The list of sessions, searched as one types. */

import { useEffect, useState } from "preact/hooks";
import type { Listed, Sessions } from "./api";
import type { Go } from "./app";
import { ago, bytes, seen } from "./format";
import { useAsk, useKeys } from "./hooks";
import { Trouble } from "./item";
import { VirtualList } from "./list";
import { HOME, type Place } from "./route";
import { t } from "./words";

/** Milliseconds between two looks at the list: sessions of a running proxy appear by themselves. */
const LOOK = 4000;

export function Home({ place, go }: { place: Place; go: Go }) {
  const [version, again] = useState(0);
  const { value, error } = useAsk<Sessions>("sessions", { q: place.query }, version);
  const [cursor, setCursor] = useState(-1);
  const rows = value?.sessions ?? [];

  useEffect(() => {
    const timer = setInterval(() => !document.hidden && again((n) => n + 1), LOOK);
    return () => clearInterval(timer);
  }, []);

  const open = (row: Listed | undefined) => row && go({ ...HOME, key: row.key });
  const move = (by: number) => setCursor(Math.max(0, Math.min(rows.length - 1, cursor + by)));
  useKeys({
    ArrowDown: () => move(1),
    j: () => move(1),
    ArrowUp: () => move(-1),
    k: () => move(-1),
    Enter: () => open(rows[cursor]),
    Home: () => setCursor(0),
    End: () => setCursor(rows.length - 1),
  });

  return (
    <div class="home">
      <div class="bar" id="bar">
        <h1>{t("sessions")}</h1>
        <input
          type="search"
          placeholder={`${t("search")}  /`}
          aria-label={t("search")}
          value={place.query}
          onInput={(event) => {
            setCursor(-1);
            go({ query: event.currentTarget.value }, true);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") open(rows[Math.max(0, cursor)]);
          }}
        />
        {value && (
          <span class="faint count">
            {rows.length} {t("of")} {value.total}
          </span>
        )}
      </div>
      {error && <Trouble error={error} />}
      {value && !rows.length && <p class="faint pad">{t(value.total ? "none" : "empty")}</p>}
      <VirtualList name={place.query} count={rows.length} estimate={66} cursor={cursor}>
        {(n) => <SessionRow row={rows[n]} onOpen={open} />}
      </VirtualList>
    </div>
  );
}

function SessionRow({ row, onOpen }: { row: Listed | undefined; onOpen: (row: Listed) => void }) {
  if (!row) return null;
  const since = ago(row.modified);
  return (
    <button type="button" class="session" onClick={() => onOpen(row)}>
      <span class="name">{seen(row.title || row.session)}</span>
      <span class="what mono">{row.session}</span>
      <span class="where">{row.project}</span>
      <span class="figures">
        {row.stored ? (
          <span>
            {row.messages} {t("messages")}
          </span>
        ) : (
          <span class="chip">{t("file")}</span>
        )}
        <span>{bytes(row.bytes)}</span>
        <span>
          {since.n} {t(since.unit)}
        </span>
      </span>
    </button>
  );
}
