/** The list of sessions, with a search field. */

import { useEffect, useState } from "preact/hooks";
import type { Listed, Sessions } from "./api";
import type { Go } from "./app";
import { ago, bytes, seen, whole } from "./format";
import { useAsk, useCursor } from "./hooks";
import { Trouble } from "./item";
import { VirtualList } from "./list";
import { HOME, type Place } from "./route";
import { t, type Word } from "./words";

/** Milliseconds between two updates of the list, so that new sessions appear. */
const LOOK = 4000;

export function Home({ place, go }: { place: Place; go: Go }) {
  const [version, again] = useState(0);
  const { value, error } = useAsk<Sessions>("sessions", { q: place.query }, version);
  const rows = value?.sessions ?? [];

  useEffect(() => {
    const timer = setInterval(() => !document.hidden && again((n) => n + 1), LOOK);
    return () => clearInterval(timer);
  }, []);

  const open = (row: Listed | undefined) => row && go({ ...HOME, key: row.key });
  const cursor = useCursor(place.query, rows.length, (n) => open(rows[n]));

  return (
    <div class="home">
      <div class="bar" id="bar">
        <h1>{t("sessions")}</h1>
        <input
          type="search"
          placeholder={`${t("search")}  /`}
          aria-label={t("search")}
          value={place.query}
          onInput={(event) => go({ query: event.currentTarget.value }, true)}
          onKeyDown={(event) => event.key === "Enter" && open(rows[0])}
        />
        {value && (
          <span class="faint count" role="status">
            {rows.length} {t("of")} {value.total}
          </span>
        )}
      </div>
      {error && <Trouble error={error} />}
      {value && !rows.length && (value.total ? <p class="faint pad">{t("none")}</p> : <Empty />)}
      <VirtualList name={place.query} count={rows.length} estimate={66} cursor={cursor.row}>
        {(n) => <SessionRow row={rows[n]} onOpen={open} />}
      </VirtualList>
    </div>
  );
}

const TRY: [string, Word][] = [
  ["ebb run -- claude", "emptyRun"],
  ["ebb ui FILE", "emptyFile"],
  ["ebb ui --example", "emptyExample"],
];

/** Commands to run in a terminal while there are no sessions. */
function Empty() {
  return (
    <div class="card empty">
      <h2>{t("empty")}</h2>
      <dl>
        {TRY.map(([command, word]) => (
          <>
            <dt>
              <kbd>{command}</kbd>
            </dt>
            <dd>{t(word)}</dd>
          </>
        ))}
      </dl>
    </div>
  );
}

function SessionRow({ row, onOpen }: { row: Listed | undefined; onOpen: (row: Listed) => void }) {
  if (!row) return null;
  const since = ago(row.modified);
  return (
    <button type="button" class="session" onClick={() => onOpen(row)}>
      <span class="name">{seen(row.title || row.session)}</span>
      <span class="what mono">{seen(row.session)}</span>
      <span class="where">{seen(row.project)}</span>
      <span class="figures">
        {row.stored ? <span>{t("messages", whole(row.messages))}</span> : <span class="chip">{t("file")}</span>}
        <span>{bytes(row.bytes)}</span>
        <span>
          {since.n} {t(since.unit)}
        </span>
      </span>
    </button>
  );
}
