/** One session: what happened in it, its figures, its chart, and the views of one call. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Calls, Listed, Opened, Sessions, Summary } from "./api";
import { address } from "./api";
import type { Go } from "./app";
import { brokenBy, CacheView } from "./cache";
import { Chart } from "./chart";
import { CompareView } from "./compare";
import { EditsView } from "./edits";
import { dollars, moment, percent, seen, short, whole } from "./format";
import { listed } from "./home";
import { useAsk, useKeys } from "./hooks";
import { type Source, Trouble } from "./item";
import { LedgerView } from "./ledger";
import type { Desk } from "./placeholder";
import { RecallView } from "./recall";
import { RequestView } from "./request";
import { type Place, TABS } from "./route";
import { story } from "./story";
import { named, t } from "./words";

interface Props {
  place: Place;
  go: Go;
  theme: string;
}

/** Milliseconds since its last change for which a session counts as live. */
const RECENT = 10 * 60_000;

export function SessionPage({ place, go, theme }: Props) {
  const [version, setVersion] = useState(0);
  const source = useMemo<Source>(
    () => ({ key: place.key, query: { policy: place.policy || undefined, window: place.window || undefined } }),
    [place.key, place.policy, place.window],
  );
  // The list has the title already. Then what takes longer: open the session, and walk through all of its requests.
  const row = useAsk<Listed>(listed.has(place.key) ? "" : `session/${place.key}/row`);
  const head = useAsk<Opened>(`session/${place.key}/head`, source.query, version);
  const total = head.value?.calls ?? 0;
  // The rows come first: the walk takes the server's time.
  const [hasRows, setHasRows] = useState(false);
  const walk = head.value && (hasRows || place.tab !== "request") ? `session/${place.key}` : "";
  const columns = useAsk<Calls>(walk && `${walk}/calls`, source.query, version);
  const summary = useAsk<Summary>(walk, source.query, version);
  const server = useAsk<Sessions>("sessions", { q: "-" });
  const changed = () => setVersion((n) => n + 1);
  const live = useLive(source, !!head.value, changed);

  const at = Math.min(place.at || total, total);
  const step = (by: number) => {
    const next = Math.max(1, Math.min(total, at + by));
    if (total) go({ at: next === total ? 0 : next, edit: "" }, true);
  };
  // The newest call is the one that is shown, whichever that is by then.
  const follow = place.at === 0;
  const toggle = () => go({ at: follow ? total : 0 }, true);
  const tabs = Object.fromEntries(TABS.map((tab, n) => [String(n + 1), () => go({ tab, edit: "" })]));
  useKeys({ ...tabs, ArrowLeft: () => step(-1), ArrowRight: () => step(1), f: toggle });

  const known = head.value ?? row.value ?? listed.get(place.key);
  const name = known ? seen(known.title || known.session) : "";
  useEffect(() => {
    // Several tabs, and the browser's history, are told apart by it.
    document.title = name ? `${name} · Ebbtide` : "Ebbtide";
    return () => {
      document.title = "Ebbtide";
    };
  }, [name]);

  const error = head.error || row.error || columns.error || summary.error;
  if (error) return <Trouble error={error} />;
  const about = head.value;
  const calls = columns.value;
  const desk = about && { source, about, may: !!server.value?.allow_undo && !about.played, changed, go };
  return (
    <div class="inspect">
      <Title known={known} about={about} server={server.value} live={live} follow={follow} onFollow={toggle} go={go} />
      <Story about={about} summary={summary.value} />
      <div class="overview">
        {about && calls && at > 0 ? (
          <Timeline about={about} calls={calls} at={at} theme={theme} go={go} />
        ) : (
          (!about || total > 0) && <div class="card timeline waiting" aria-busy="true" />
        )}
        <Figures about={about} summary={summary.value} calls={calls} at={at} />
      </div>
      <nav class="bar" id="bar" aria-label={t("views")}>
        <div class="tabs">
          {TABS.map((tab, n) => (
            <button
              key={tab}
              type="button"
              title={`${t(tab)} (${n + 1})`}
              aria-current={place.tab === tab ? "page" : undefined}
              onClick={() => go({ tab, edit: "" })}
            >
              {t(tab)}
            </button>
          ))}
        </div>
        <div class="stepper">
          <button type="button" aria-label={t("previous")} disabled={at <= 1} onClick={() => step(-1)}>
            ‹
          </button>
          <span>
            {t("call")} <b>{at || "…"}</b>{" "}
            <span class="faint">
              {t("of")} {total || "…"}
            </span>
          </span>
          <button type="button" aria-label={t("next")} disabled={at >= total} onClick={() => step(1)}>
            ›
          </button>
        </div>
      </nav>
      {desk ? (
        <View place={place} desk={desk} at={at} version={version} theme={theme} onRows={() => setHasRows(true)}>
          {{ calls, summary: summary.value, policies: server.value?.arms ?? [] }}
        </View>
      ) : (
        <Ghosts />
      )}
    </div>
  );
}

/** Where the rows of the request will be. */
function Ghosts() {
  return (
    <div class="ghosts" aria-busy="true">
      {[0, 1, 2].map((n) => (
        <div key={n} class="item ghost" />
      ))}
    </div>
  );
}

interface ViewProps {
  place: Place;
  desk: Desk;
  at: number;
  version: number;
  theme: string;
  /** Called when the first rows of the request are there. */
  onRows: () => void;
  children: { calls: Calls | undefined; summary: Summary | undefined; policies: string[] };
}

/** The chosen tab. Those that need the walk through all requests wait for it. */
function View({ place, desk, at, version, theme, onRows, children }: ViewProps) {
  const { source, go } = desk;
  const { calls, summary, policies } = children;
  const props = { source, at, version };
  if (place.tab === "request") return <RequestView {...props} desk={desk} edit={place.edit} onRows={onRows} />;
  if (place.tab === "edits")
    return <EditsView {...props} at={place.at} desk={desk} summary={summary} edit={place.edit} />;
  if (place.tab === "ledger") return <LedgerView {...props} />;
  if (place.tab === "recall") return <RecallView source={source} place={place} go={go} stored={desk.about.stored} />;
  if (place.tab === "compare") return <CompareView source={source} about={desk.about} policies={policies} />;
  return calls ? <CacheView {...props} calls={calls} theme={theme} go={go} /> : <Ghosts />;
}

/** Whether the session changed a moment ago or grows; `grown` is called when it grew. */
function useLive(source: Source, isOpen: boolean, grown: () => void): boolean {
  const [live, setLive] = useState(false);
  const row = listed.get(source.key);
  const recent = !!row && row.source !== "file" && Date.now() - Date.parse(row.modified) < RECENT;
  useEffect(() => {
    if (!isOpen) return;
    const stream = new EventSource(address(`session/${source.key}/events`, source.query));
    let known = "";
    stream.addEventListener("grown", (event: MessageEvent<string>) => {
      const grew = known && known !== event.data;
      if (grew) grown();
      if (grew || recent) setLive(true);
      known = event.data;
    });
    stream.onerror = () => setLive(false);
    return () => stream.close();
  }, [source, isOpen]);
  return live;
}

function Story({ about, summary }: { about: Opened | undefined; summary: Summary | undefined }) {
  if (!summary) return <p class="story faint">{t("loading")}</p>;
  const [answer, ...rest] = story(summary);
  return (
    <p class="story" role="status">
      {answer} <span class="rest">{rest.join(" ")}</span>
      {!!about?.refusals.length && <b class="warning"> {t("refusals", about.refusals.length)}</b>}
      {summary.diagnosis && <span class="warning"> {seen(summary.diagnosis)}</span>}
    </p>
  );
}

interface TitleProps {
  known: Listed | undefined;
  about: Opened | undefined;
  server: Sessions | undefined;
  live: boolean;
  follow: boolean;
  onFollow: () => void;
  go: Go;
}

const WINDOWS = [20_000, 32_000, 40_000, 64_000, 100_000, 128_000, 200_000, 400_000, 1_000_000];

function Title({ known, about, server, live, follow, onFollow, go }: TitleProps) {
  const name = known ? seen(known.title || known.session) : "…";
  return (
    <div class="title">
      <div class="named">
        <a class="back" href="#/" title={`${t("back")} (Esc)`}>
          ‹ {t("sessions")}
        </a>
        <h1 title={name}>{name}</h1>
      </div>
      <div class="chips">
        {live && (
          <button
            type="button"
            class={follow ? "chip live on" : "chip live"}
            title={`${t("liveHint")} (f)`}
            aria-pressed={follow}
            onClick={onFollow}
          >
            {t("live")}
          </button>
        )}
        {about && <Setting about={about} server={server} go={go} />}
        {known?.project && <span class="faint mono where">{seen(known.project)}</span>}
      </div>
    </div>
  );
}

/** The model, and under which policy and window; of a recorded file these can be chosen. */
function Setting({ about, server, go }: { about: Opened; server: Sessions | undefined; go: Go }) {
  const windows = WINDOWS.includes(about.window) ? WINDOWS : [...WINDOWS, about.window].sort((a, b) => a - b);
  return (
    <>
      {about.models.map((model) => (
        <span key={model} class="chip mono">
          {seen(model) || "?"}
        </span>
      ))}
      {about.played ? (
        <>
          <select
            aria-label={t("policy")}
            value={about.policy}
            onChange={(event) => go({ policy: event.currentTarget.value, at: 0 })}
          >
            {(server?.policies ?? [about.policy]).map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
          <select
            aria-label={t("window")}
            value={String(about.window)}
            onChange={(event) => go({ window: Number(event.currentTarget.value), at: 0 })}
          >
            {windows.map((size) => (
              <option key={size} value={String(size)}>
                {short(size)} {t("window")}
              </option>
            ))}
          </select>
        </>
      ) : (
        <>
          <span class="chip">{about.policy}</span>
          <span class="chip">
            {short(about.window)} {t("window")}
          </span>
        </>
      )}
    </>
  );
}

interface FiguresProps {
  about: Opened | undefined;
  summary: Summary | undefined;
  calls: Calls | undefined;
  at: number;
}

/** The figures of the selected call, and what the session saved. */
function Figures({ about, summary, calls, at }: FiguresProps) {
  const nth = at - 1;
  const tokens = calls?.tokens[nth] ?? 0;
  const untouched = calls?.untouched[nth] ?? 0;
  const share = about?.window ? tokens / about.window : 0;
  const removals = (calls?.batches ?? []).filter((batch) => batch.call <= at && !batch.undone);
  const count = removals.reduce((sum, batch) => sum + batch.edits, 0);
  return (
    <dl class={calls ? "figures" : "figures waiting"}>
      <div>
        <dt>{t("tokensNow")}</dt>
        <dd title={t("tokens", whole(tokens))}>
          {short(tokens)} <small>{percent(share)}</small>
        </dd>
        <meter min={0} max={1} value={Math.min(1, share)} aria-label={t("tokensNow")} />
      </div>
      <div>
        <dt>{t("untouched")}</dt>
        <dd title={t("tokens", whole(untouched))}>
          {short(untouched)} {untouched > tokens && <small>−{percent(1 - tokens / untouched)}</small>}
        </dd>
      </div>
      <div>
        <dt>{t("editsMade")}</dt>
        <dd>
          {short(removals.reduce((sum, batch) => sum + batch.saved, 0))} <small>{t("inEdits", whole(count))}</small>
        </dd>
      </div>
      <div>
        <dt>{t("hitRate")}</dt>
        <dd>
          <HitRate calls={calls} nth={nth} />
        </dd>
      </div>
      <div>
        <dt>{t("cost")}</dt>
        <dd title={summary?.prices.join("\n")}>
          {dollars(calls?.cost[nth] ?? null)}{" "}
          <small>{summary && (summary.cost === null ? t("noPrice") : t("inAll", dollars(summary.cost)))}</small>
        </dd>
      </div>
      <div>
        <dt>{t(about?.played ? "wouldSaveAll" : "savedAll")}</dt>
        <dd title={summary?.basis} class={(summary?.saved_usd ?? summary?.saved_share ?? 0) > 0 ? "gain" : ""}>
          {summary?.saved_usd === null ? percent(summary.saved_share) : dollars(summary?.saved_usd ?? null)}{" "}
          <small>
            {summary && summary.saved_usd !== null && percent(summary.saved_share)}
            {summary?.estimated && ` · ${t("estimated")}`}
          </small>
        </dd>
      </div>
    </dl>
  );
}

/** The share of the call's input that came from the provider's cache: as billed, else as it should have been. */
function HitRate({ calls, nth }: { calls: Calls | undefined; nth: number }) {
  if (!calls || nth < 0) return <>–</>;
  const broke = calls.breaks.some((one) => one.call === nth + 1);
  const total = calls.tokens[nth] ?? 0;
  const read = calls.billed[nth] ? (calls.read[nth] ?? 0) : (calls.warm[nth] ?? 0);
  return (
    <>
      {total ? percent(Math.min(1, read / total)) : "–"} {!calls.billed[nth] && <small>{t("expectedShort")}</small>}
      {broke && <small class="broke">{t("breakMark")}</small>}
    </>
  );
}

function Timeline({ about, calls, at, theme, go }: { about: Opened; calls: Calls; at: number; theme: string; go: Go }) {
  const [hover, setHover] = useState(0);
  const parts = useMemo(() => Object.keys(calls.parts).filter((part) => calls.parts[part]?.some(Boolean)), [calls]);
  const shown = hover || at;
  const nth = shown - 1;
  const broke = calls.breaks.find((one) => one.call === shown);
  const left = calls.batches.filter((one) => one.call === shown).reduce((sum, one) => sum + one.saved, 0);
  return (
    <div class="card timeline">
      <Chart
        calls={calls}
        parts={parts}
        window={about.window}
        actsAt={about.auto_at}
        at={at}
        theme={theme}
        onPick={(call) => go({ at: call, edit: "" }, true)}
        onHover={setHover}
      />
      <div class="legend">
        <span class="which">
          {t("call")} {shown} · <b>{t("tokens", whole(calls.tokens[nth] ?? 0))}</b>
          <span class="faint"> {moment(calls.at[nth] ?? 0)}</span>
        </span>
        {[...parts].reverse().map((part) => (
          <span key={part} class={calls.parts[part]?.[nth] ? "key" : "key none"}>
            <span class={`swatch part-${part.replaceAll(" ", "-")}`} />
            {named(part)} <b>{short(calls.parts[part]?.[nth] ?? 0)}</b>
          </span>
        ))}
        {left > 0 && <span class="key out">▾ {t("tokens", short(-left))}</span>}
        {broke && (
          <span class="key broke" title={seen(broke.detail)}>
            ▴ {brokenBy(broke)}
          </span>
        )}
      </div>
      <Marks about={about} calls={calls} />
    </div>
  );
}

/** The legend of the lines and marks that are in the chart. */
function Marks({ about, calls }: { about: Opened; calls: Calls }) {
  const [folds, edits] = [true, false].map((fold) => calls.batches.some((one) => one.fold === fold));
  return (
    <div class="legend marks">
      <span class="key">
        <span class="rule bad" /> {t("window")} {short(about.window)}
      </span>
      <span class="key">
        <span class="rule warn" /> {t("actsLine")} {short(about.auto_at)}
      </span>
      <span class="key">
        <span class="rule dots" /> {t("untouched")}
      </span>
      {folds && (
        <span class="key">
          <span class="sign fold-sign">◆</span> {t("foldMark")}
        </span>
      )}
      {edits && (
        <span class="key">
          <span class="sign out">▾</span> {t("editMark")}
        </span>
      )}
      {calls.breaks.length > 0 && (
        <span class="key">
          <span class="sign broke">▴</span> {t("breakMark")}
        </span>
      )}
    </div>
  );
}
