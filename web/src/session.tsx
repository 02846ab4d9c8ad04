/** One session: its figures, its chart, and the views of one call. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Calls, Sessions, Summary } from "./api";
import { address } from "./api";
import type { Go } from "./app";
import { brokenBy, CacheView } from "./cache";
import { Chart } from "./chart";
import { CompareView } from "./compare";
import { EditsView } from "./edits";
import { dollars, moment, percent, seen, short, whole } from "./format";
import { useAsk, useKeys } from "./hooks";
import { type Source, Trouble } from "./item";
import { LedgerView } from "./ledger";
import { RecallView } from "./recall";
import { RequestView } from "./request";
import { type Place, TABS } from "./route";
import { named, t } from "./words";

interface Props {
  place: Place;
  go: Go;
  theme: string;
}

export function SessionPage({ place, go, theme }: Props) {
  const [version, setVersion] = useState(0);
  const source = useMemo<Source>(
    () => ({ key: place.key, query: { policy: place.policy || undefined, window: place.window || undefined } }),
    [place.key, place.policy, place.window],
  );
  const about = useAsk<Summary>(`session/${place.key}`, source.query, version);
  const columns = useAsk<Calls>(`session/${place.key}/calls`, source.query, version);
  const desk = useAsk<Sessions>("sessions", { q: "-" });
  const live = useLive(source, () => setVersion((n) => n + 1));

  const total = columns.value?.tokens.length ?? 0;
  const at = Math.min(place.at || total, total);
  const step = (by: number) => {
    const next = Math.max(1, Math.min(total, at + by));
    if (total) go({ at: next === total ? 0 : next }, true);
  };
  // The newest call is the one that is shown, whichever that is by then.
  const follow = place.at === 0;
  const toggle = () => go({ at: follow ? total : 0 }, true);
  const tabs = Object.fromEntries(TABS.map((tab, n) => [String(n + 1), () => go({ tab })]));
  useKeys({ ...tabs, ArrowLeft: () => step(-1), ArrowRight: () => step(1), f: toggle });

  const name = about.value ? seen(about.value.title || about.value.session) : "";
  useEffect(() => {
    // Several tabs, and the browser's history, are told apart by it.
    document.title = name ? `${name} · Ebbtide` : "Ebbtide";
    return () => {
      document.title = "Ebbtide";
    };
  }, [name]);

  if (about.error) return <Trouble error={about.error} />;
  if (!about.value || !columns.value) return <p class="faint pad">{t("loading")}</p>;
  const calls = columns.value;
  return (
    <div class="inspect">
      <Title about={about.value} desk={desk.value} live={live} follow={follow} onFollow={toggle} go={go} />
      <Figures about={about.value} calls={calls} />
      {total > 0 && <Timeline about={about.value} calls={calls} at={at} theme={theme} go={go} />}
      <nav class="bar" id="bar" aria-label={t("views")}>
        <div class="tabs">
          {TABS.map((tab, n) => (
            <button
              key={tab}
              type="button"
              title={`${t(tab)} (${n + 1})`}
              aria-current={place.tab === tab ? "page" : undefined}
              onClick={() => go({ tab })}
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
            {t("call")} <b>{at}</b>{" "}
            <span class="faint">
              {t("of")} {total}
            </span>
          </span>
          <button type="button" aria-label={t("next")} disabled={at >= total} onClick={() => step(1)}>
            ›
          </button>
        </div>
      </nav>
      {place.tab === "request" && <RequestView source={source} at={at} version={version} />}
      {place.tab === "edits" && (
        <EditsView
          source={source}
          at={place.at}
          version={version}
          may={!!desk.value?.allow_undo && !about.value.played}
          changed={() => setVersion((n) => n + 1)}
          go={go}
        />
      )}
      {place.tab === "cache" && (
        <CacheView source={source} calls={calls} at={at} version={version} theme={theme} go={go} />
      )}
      {place.tab === "ledger" && <LedgerView source={source} at={at} version={version} />}
      {place.tab === "recall" && <RecallView source={source} place={place} go={go} stored={about.value.stored} />}
      {place.tab === "compare" && <CompareView source={source} about={about.value} policies={desk.value?.arms ?? []} />}
    </div>
  );
}

/** Whether the event stream is connected; `grown` is called when the session grew. */
function useLive(source: Source, grown: () => void): boolean {
  const [live, setLive] = useState(false);
  useEffect(() => {
    const stream = new EventSource(address(`session/${source.key}/events`, source.query));
    let known = "";
    stream.addEventListener("grown", (event: MessageEvent<string>) => {
      setLive(true);
      if (known && known !== event.data) grown();
      known = event.data;
    });
    stream.onerror = () => setLive(false);
    return () => stream.close();
  }, [source]);
  return live;
}

interface TitleProps {
  about: Summary;
  desk: Sessions | undefined;
  live: boolean;
  follow: boolean;
  onFollow: () => void;
  go: Go;
}

const WINDOWS = [20_000, 32_000, 40_000, 64_000, 100_000, 128_000, 200_000, 400_000, 1_000_000];

function Title({ about, desk, live, follow, onFollow, go }: TitleProps) {
  const windows = WINDOWS.includes(about.window) ? WINDOWS : [...WINDOWS, about.window].sort((a, b) => a - b);
  return (
    <div class="title">
      <a class="back" href="#/" title={`${t("back")} (Esc)`}>
        ‹ {t("sessions")}
      </a>
      <h1>{seen(about.title || about.session)}</h1>
      <div class="chips">
        <button
          type="button"
          class={live && follow ? "chip live on" : "chip live"}
          title={`${t("liveHint")} (f)`}
          aria-pressed={follow}
          onClick={onFollow}
        >
          {t("live")}
        </button>
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
              {(desk?.policies ?? [about.policy]).map((name) => (
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
        {about.project && <span class="faint mono where">{seen(about.project)}</span>}
      </div>
      {about.diagnosis && <p class="warning">{seen(about.diagnosis)}</p>}
      {about.refusals.length > 0 && <p class="warning">{t("refusals", about.refusals.length)}</p>}
    </div>
  );
}

function Figures({ about, calls }: { about: Summary; calls: Calls }) {
  const share = about.window ? about.tokens / about.window : 0;
  const last = calls.tokens.length - 1;
  return (
    <dl class="figures">
      <div>
        <dt>{t("tokensNow")}</dt>
        <dd title={t("tokens", whole(about.tokens))}>
          {short(about.tokens)} <small>{percent(share)}</small>{" "}
          <small class="basis">{t(calls.billed[last] ? "billed" : "estimated")}</small>
        </dd>
        <meter min={0} max={1} value={share} aria-label={t("tokensNow")} />
      </div>
      <div>
        <dt>{t("untouched")}</dt>
        <dd title={t("tokens", whole(about.untouched))}>
          {short(about.untouched)}{" "}
          {about.untouched > about.tokens && <small>−{percent(1 - about.tokens / about.untouched)}</small>}
        </dd>
      </div>
      <div>
        <dt>{t("savedAll")}</dt>
        <dd title={t("tokens", whole(about.saved))}>{short(about.saved)}</dd>
      </div>
      <div>
        <dt>{about.estimated && about.cost !== null ? `${t("cost")} · ${t("estimated")}` : t("cost")}</dt>
        <dd title={about.prices.join("\n")}>
          {dollars(about.cost)} {about.cost === null && <small>{t("noPrice")}</small>}
          {about.saved_usd !== null && (
            <small>
              {t("notSpent")} {dollars(about.saved_usd)}
            </small>
          )}
        </dd>
      </div>
      <div>
        <dt>{t("hitRate")}</dt>
        <dd>
          {about.hit_rate === null ? "–" : percent(about.hit_rate)}{" "}
          {about.hit_rate === null && <small>{t("unbilled")}</small>}
          {about.breaks > 0 && <small class="broke">{t("breaksSeen", about.breaks)}</small>}
        </dd>
      </div>
      <div>
        <dt>{t("editsMade")}</dt>
        <dd>
          {whole(about.edits)} {about.batches > 0 && <small>{t("batches", whole(about.batches))}</small>}
        </dd>
      </div>
    </dl>
  );
}

function Timeline({
  about,
  calls,
  at,
  theme,
  go,
}: {
  about: Summary;
  calls: Calls;
  at: number;
  theme: string;
  go: Go;
}) {
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
        onPick={(call) => go({ at: call }, true)}
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
function Marks({ about, calls }: { about: Summary; calls: Calls }) {
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
