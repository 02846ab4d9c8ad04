/** Two policies on this session: the same calls, the same window, two bills. */

import { useState } from "preact/hooks";
import { ask, type Comparison, type Summary } from "./api";
import { dollars, percent, short, whole } from "./format";
import { worded } from "./hooks";
import { type Source, Trouble } from "./item";
import { t } from "./words";

interface Props {
  source: Source;
  about: Summary;
  policies: string[];
  theme: string;
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
  const best = Math.min(...found.arms.map((arm) => arm.cost ?? arm.tokens));
  return (
    <div class="arms">
      {found.arms.map((arm) => (
        <div key={arm.policy} class={(arm.cost ?? arm.tokens) === best ? "card arm best" : "card arm"}>
          <h3>{arm.policy}</h3>
          <p class="bill">{arm.cost === null ? short(arm.tokens) : dollars(arm.cost)}</p>
          <Spark series={arm.series} top={found.window} />
          <dl>
            <dt>{t("total")}</dt>
            <dd>{whole(arm.tokens)}</dd>
            <dt>{t("peak")}</dt>
            <dd>{whole(arm.peak)}</dd>
            <dt>{t("hitRate")}</dt>
            <dd>{percent(arm.hit_rate)}</dd>
            <dt>{t("breaksSeen")}</dt>
            <dd>{arm.breaks}</dd>
            <dt>{t("editsMade")}</dt>
            <dd>{arm.edits}</dd>
            {arm.retention !== null && (
              <>
                <dt>{t("retention")}</dt>
                <dd>{percent(arm.retention)}</dd>
              </>
            )}
          </dl>
          {arm.note && <p class="warning">{arm.note}</p>}
        </div>
      ))}
    </div>
  );
}

function Spark({ series, top }: { series: number[]; top: number }) {
  const most = Math.max(top, ...series, 1);
  const wide = Math.max(1, series.length - 1);
  const line = series.map((n, i) => `${((i / wide) * 100).toFixed(2)},${(40 - (n / most) * 38).toFixed(2)}`).join(" ");
  return (
    <svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,40 ${line} 100,40`} />
      <polyline points={line} />
    </svg>
  );
}
