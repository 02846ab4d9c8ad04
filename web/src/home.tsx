/** The list of sessions, with totals and a search field. */

import { useEffect, useState } from "preact/hooks";
import type { Listed, Sessions, Totals } from "./api";
import type { Go } from "./app";
import { ago, dollars, ending, percent, seen, short, whole } from "./format";
import { useAsk, useCursor } from "./hooks";
import { Trouble } from "./item";
import { VirtualList } from "./list";
import { HOME, type Place } from "./route";
import { t, type Word } from "./words";

/** Milliseconds between two updates of the list, so that new sessions appear; shorter while figures are on their way. */
const LOOK = 4000;
const LOOK_SOON = 700;

/** The rows of the last list, so that a session's page has a title before the server answers. */
export const listed = new Map<string, Listed>();

export function Home({ place, go }: { place: Place; go: Go }) {
  const [version, again] = useState(0);
  const { value, error } = useAsk<Sessions>("sessions", { q: place.query }, version);
  const rows = value?.sessions ?? [];
  for (const row of rows) listed.set(row.key, row);
  const soon = !!value?.waiting;

  useEffect(() => {
    const timer = setInterval(() => !document.hidden && again((n) => n + 1), soon ? LOOK_SOON : LOOK);
    return () => clearInterval(timer);
  }, [soon]);

  const open = (row: Listed | undefined) => row && go({ ...HOME, key: row.key });
  const cursor = useCursor(place.query, rows.length, (n) => open(rows[n]));

  return (
    <div class="home">
      {value && value.total > 0 && <Sums value={value.totals} total={value.total} waiting={value.waiting} />}
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
      {rows.length > 0 && <Columns />}
      <VirtualList name={place.query} count={rows.length} estimate={54} cursor={cursor.row}>
        {(n) => <SessionRow row={rows[n]} onOpen={open} />}
      </VirtualList>
    </div>
  );
}

/** The totals of all sessions that have been added up so far. */
function Sums({ value, total, waiting }: { value: Totals; total: number; waiting: number }) {
  return (
    <dl class="figures sums">
      <div>
        <dt>{t("totalSessions")}</dt>
        <dd>
          {whole(total)} <small>{value.ours > 0 && value.ours < total && t("totalOurs", whole(value.ours))}</small>
        </dd>
      </div>
      <div>
        <dt>{t("totalCalls")}</dt>
        <dd>{whole(value.calls)}</dd>
      </div>
      <div>
        <dt>{t("totalCost")}</dt>
        <dd>
          {dollars(value.cost)} {value.cost === null && !waiting && <small>{t("noPrice")}</small>}
        </dd>
      </div>
      <div>
        <dt>{t("totalSaved")}</dt>
        <dd class={value.saved_usd !== null && value.saved_usd > 0 ? "gain" : ""}>{dollars(value.saved_usd)}</dd>
      </div>
      {waiting > 0 && (
        <p class="faint counting" role="status">
          {t("counting", waiting)}
        </p>
      )}
    </dl>
  );
}

const COLUMNS: Word[] = ["name", "project", "model", "calls", "context", "sum", "saved", "age"];

function Columns() {
  return (
    <div class="columns" aria-hidden="true">
      {COLUMNS.map((name) => (
        <span key={name} class={`cell ${name}`}>
          {t(name)}
        </span>
      ))}
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

const SOURCES: Record<string, string> = { "claude-code": "Claude Code", codex: "Codex" };

function SessionRow({ row, onOpen }: { row: Listed | undefined; onOpen: (row: Listed) => void }) {
  if (!row) return null;
  const since = ago(row.modified);
  const figures = row.figures;
  const model = figures?.model || row.model;
  return (
    <button type="button" class="session" onClick={() => onOpen(row)} title={seen(row.session)}>
      <span class="cell name">{seen(row.title || row.session)}</span>
      <span class="cell project">
        {!row.stored && <span class="chip">{SOURCES[row.source] ?? t("file")}</span>}{" "}
        <span title={seen(row.project)}>{seen(row.source === "file" ? row.project : ending(row.project))}</span>
      </span>
      <span class="cell model mono">{seen(model)}</span>
      <span class="cell calls">{figures ? whole(figures.calls) : ""}</span>
      <ContextBar tokens={figures?.tokens || row.tokens} window={figures?.window || row.window} />
      <span class="cell sum">{figures ? dollars(figures.cost) : ""}</span>
      <Saved row={row} />
      <span class="cell age">
        {since.n} {t(since.unit)}
      </span>
    </button>
  );
}

/** How much of the window the newest request took. */
function ContextBar({ tokens, window }: { tokens: number; window: number }) {
  if (!tokens) return <span class="cell context" />;
  const share = window ? tokens / window : 0;
  return (
    <span class="cell context" title={`${t("tokens", whole(tokens))} / ${short(window)}`}>
      {window > 0 && <meter min={0} max={1} value={Math.min(1, share)} aria-label={t("context")} />}
      <span>
        {short(tokens)} {window > 0 && <span class="faint">{percent(share)}</span>}
      </span>
    </span>
  );
}

function Saved({ row }: { row: Listed }) {
  const usd = row.figures?.saved_usd;
  if (usd === undefined || usd === null) return <span class="cell saved faint">{row.figures ? "–" : ""}</span>;
  const would = row.figures?.simulated;
  return (
    <span
      class={would ? "cell saved would" : usd > 0 ? "cell saved gain" : "cell saved"}
      title={would ? t("wouldSave", dollars(usd)) : ""}
    >
      {would && <small>{t("wouldHave")}</small>} {dollars(usd)}
    </span>
  );
}
