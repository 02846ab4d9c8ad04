/** The Compare tab: two policies on this session, with the same calls and window. */

import { useState } from "preact/hooks";
import { ask, type Comparison, type Opened } from "./api";
import { dollars, percent, seen, short, whole } from "./format";
import { worded } from "./hooks";
import { type Source, Trouble } from "./item";
import { t } from "./words";

interface Props {
  source: Source;
  about: Opened;
  policies: string[];
}

export function CompareView({ source, about, policies }: Props) {
  const [one, setOne] = useState(about.policy);
  const [two, setTwo] = useState(about.policy === "claude-code" ? "default" : "claude-code");
  const [result, setResult] = useState<Comparison>();
  const [state, setState] = useState<"idle" | "busy" | string>("idle");
  const run = () => {
    setState("busy");
    ask<Comparison>(`session/${source.key}/compare`, { ...source.query, policies: `${one},${two}` })
      .then((found) => {
        setResult(found);
        setState("idle");
      })
      .catch((error: unknown) => setState(worded(error)));
  };
  const choice = (value: string, set: (name: string) => void) => (
    <select value={value} aria-label={t("policy")} onChange={(event) => set(event.currentTarget.value)}>
      {policies.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
  return (
    <section class="compare" aria-label={t("compare")}>
      <p class="faint">{t("compareAbout")}</p>
      <div class="ask">
        {choice(one, setOne)}
        {choice(two, setTwo)}
        <button type="button" class="main" disabled={state === "busy" || one === two} onClick={run}>
          {t(state === "busy" ? "running" : "run")}
        </button>
      </div>
      {state !== "idle" && state !== "busy" && <Trouble error={state} />}
      {result && <Result found={result} />}
    </section>
  );
}

function Result({ found }: { found: Comparison }) {
  const best = Math.min(...found.arms.map((arm) => arm.cost));
  const most = Math.max(found.window, ...found.arms.map((arm) => arm.peak));
  return (
    <>
      {found.unpriced.length > 0 && (
        <p class="faint">{t("guessed", seen(found.unpriced.map((name) => name || "?").join(", ")))}</p>
      )}
      <div class="arms">
        {found.arms.map((arm) => (
          <div key={arm.policy} class={arm.cost === best ? "card arm best" : "card arm"}>
            <h3>{arm.policy}</h3>
            <p class="sum">
              {dollars(arm.cost)} {arm.cost > best && <small class="broke">+{percent(arm.cost / best - 1)}</small>}{" "}
              <small class="faint">{t("costs")}</small>
            </p>
            <Spark series={arm.series} window={found.window} most={most} />
            <p class="legend marks">
              <span class="key">
                <span class="rule bad" /> {t("windowLine", short(found.window))}
              </span>
            </p>
            <dl>
              <Figure name={t("total")} value={whole(arm.tokens)} />
              <Figure name={t("peak")} value={whole(arm.peak)} />
              <Figure name={t("over")} value={String(arm.over)} />
              <Figure name={t("hitRate")} value={percent(arm.hit_rate)} />
              <Figure name={t("breaksCount")} value={String(arm.breaks)} />
              {arm.kept !== null && <Figure name={t("kept")} value={percent(arm.kept)} />}
              {arm.reachable !== null && <Figure name={t("reachable")} value={percent(arm.reachable)} />}
            </dl>
          </div>
        ))}
      </div>
    </>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

/** Both policies on the same scale, with the window as a line. */
function Spark({ series, window, most }: { series: number[]; window: number; most: number }) {
  const wide = Math.max(1, series.length - 1);
  const y = (tokens: number) => (40 - (tokens / most) * 38).toFixed(2);
  const line = series.map((n, i) => `${((i / wide) * 100).toFixed(2)},${y(n)}`).join(" ");
  return (
    <svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,40 ${line} 100,40`} />
      <polyline points={line} />
      <line x1="0" x2="100" y1={y(window)} y2={y(window)} />
    </svg>
  );
}
