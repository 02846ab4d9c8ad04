/** The Cache tab: the usage of every call as a bar, and one call message by message with its breakpoints. */

import { useEffect, useRef } from "preact/hooks";
import type { Break, CacheMap, Calls } from "./api";
import type { Go } from "./app";
import { dollars, lasting, seen, short, whole } from "./format";
import { useAsk, useKeys } from "./hooks";
import { type Source, Trouble } from "./item";
import { VirtualList } from "./list";
import { t, type Word } from "./words";

interface Props {
  source: Source;
  calls: Calls;
  at: number;
  version: number;
  theme: string;
  go: Go;
}

export function CacheView({ source, calls, at, version, theme, go }: Props) {
  const total = calls.tokens.length;
  const most = calls.tokens.reduce((a, b) => Math.max(a, b), 1);
  const broken = new Map(calls.breaks.map((one) => [one.call, one]));
  const move = (to: number) => go({ at: Math.max(1, Math.min(total, to)) }, true);
  useKeys({
    ArrowDown: () => move(at - 1),
    j: () => move(at - 1),
    ArrowUp: () => move(at + 1),
    k: () => move(at + 1),
  });
  if (!total) return <p class="faint pad">{t("noBill")}</p>;
  return (
    <section aria-label={t("cache")}>
      <OneCall source={source} at={at} version={version} theme={theme} />
      <VirtualList name={`${source.key}${version}`} count={total} estimate={34} cursor={total - at}>
        {(n) => {
          const call = total - n;
          const nth = call - 1;
          const broke = broken.get(call);
          return (
            <button type="button" class={call === at ? "bill here" : "bill"} onClick={() => go({ at: call }, true)}>
              <span class="mono nth">{call}</span>
              <span class="track">
                <Bar calls={calls} nth={nth} most={most} />
              </span>
              <span class="number">{short(calls.tokens[nth] ?? 0)}</span>
              <span class="number money">{dollars(calls.cost[nth] ?? null)}</span>
              {broke && (
                <span class="broke">
                  ▴ {brokenBy(broke)} · {t("lost", short(broke.lost))}
                </span>
              )}
            </button>
          );
        }}
      </VirtualList>
    </section>
  );
}

export function brokenBy(one: Break): string {
  return one.batch ? `${seen(one.detail)} · ${t("byEdit", one.batch)}` : seen(one.detail);
}

function Bar({ calls, nth, most }: { calls: Calls; nth: number; most: number }) {
  const billed = calls.billed[nth];
  const tokens = calls.tokens[nth] ?? 0;
  const warm = calls.warm[nth] ?? 0;
  const parts = billed
    ? ([
        ["read", calls.read[nth] ?? 0],
        ["write", calls.write[nth] ?? 0],
        ["fresh", calls.fresh[nth] ?? 0],
      ] as const)
    : ([
        ["read guess", warm],
        ["write guess", tokens - warm],
      ] as const);
  return (
    <>
      {parts.map(([name, n]) => (
        <span
          key={name}
          class={`seg ${name}`}
          title={`${t(name.split(" ")[0] as "read")}: ${whole(n)}`}
          style={{ width: `${(100 * n) / most}%` }}
        />
      ))}
    </>
  );
}

function OneCall({ source, at, version, theme }: { source: Source; at: number; version: number; theme: string }) {
  const { value, error } = useAsk<CacheMap>(`session/${source.key}/cache`, { ...source.query, at }, version);
  if (error) return <Trouble error={error} />;
  if (!value) return <div class="card onecall" />;
  const usage = value.usage;
  return (
    <div class="card onecall">
      <div class="legend">
        <span class="which">
          {t("call")} {value.at}
        </span>
        {usage ? (
          <>
            <span class="key">
              <span class="swatch seg read" /> {t("read")} <b>{whole(usage.cache_read)}</b>
            </span>
            <span class="key">
              <span class="swatch seg write" /> {t("write")} <b>{whole(usage.cache_write)}</b>
            </span>
            <span class="key">
              <span class="swatch seg fresh" /> {t("fresh")} <b>{whole(usage.input)}</b>
            </span>
            <span class="key">
              {t("output")} <b>{whole(usage.output)}</b>
            </span>
          </>
        ) : (
          <span class="faint">{t("expected")}</span>
        )}
        {value.pause !== null && <span class="faint">{t("pause", lasting(value.pause), lasting(value.ttl))}</span>}
      </div>
      <Strip map={value} theme={theme} />
      <div class="legend marks">
        {MAP.map(([name, word]) => (
          <span key={name} class="key">
            <span class={`swatch map-${name}`} /> {t(word)}
          </span>
        ))}
        <span class="key">
          <span class="sign">▼</span> {t("mark")}
        </span>
      </div>
      <p class="faint">
        {t("warm")}: {t("tokens", short(value.warm.tokens))} · {value.warm.reason}
      </p>
      {value.break && (
        <p class="broke">
          ▴ {t("why_broke")}: {brokenBy(value.break)} · {t("lost", whole(value.break.lost))}
        </p>
      )}
    </div>
  );
}

/** What the colours of the strip mean. */
const MAP: [string, Word][] = [
  ["warm", "warmPart"],
  ["warm-ours", "warmStub"],
  ["cold", "coldPart"],
  ["edit", "newStub"],
];

/** The request from left to right, each message as wide as its tokens, with what was cached and the breakpoints. */
function Strip({ map, theme }: { map: CacheMap; theme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const draw = () => paint(element, map);
    draw();
    const sized = new ResizeObserver(draw);
    sized.observe(element);
    return () => sized.disconnect();
  }, [map, theme]);
  return <canvas class="strip" ref={canvas} role="img" aria-label={`${t("warm")}: ${map.warm.messages}`} />;
}

function paint(canvas: HTMLCanvasElement, map: CacheMap): void {
  const ctx = canvas.getContext("2d");
  if (!ctx) return;
  const ratio = devicePixelRatio;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  ctx.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const ink = (name: string) => style.getPropertyValue(name).trim();
  const whole = map.overhead + map.messages.reduce((sum, one) => sum + one.tokens, 0) || 1;
  const per = width / whole;
  const top = 12;
  let x = 0;
  const segment = (tokens: number, fill: string) => {
    ctx.fillStyle = fill;
    const wide = tokens * per;
    ctx.fillRect(x, top, Math.max(0.5, wide - (wide > 3 ? 1 : 0)), height - top);
    x += wide;
  };
  segment(map.overhead, ink(map.warm.messages ? "--warm-deep" : "--cold"));
  const marks = new Set(map.marks);
  map.messages.forEach((message, n) => {
    const warm = n < map.warm.messages;
    segment(message.tokens, ink(message.ours ? (warm ? "--warm-ours" : "--edit") : warm ? "--warm" : "--cold"));
    if (!marks.has(n)) return;
    ctx.fillStyle = ink("--ink");
    ctx.beginPath();
    ctx.moveTo(x - 4, 1);
    ctx.lineTo(x + 4, 1);
    ctx.lineTo(x, 9);
    ctx.fill();
    ctx.fillRect(x - 0.5, 5, 1, height);
  });
}
