/** The chart: tokens of every call by part, with marks for edits and cache breaks. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Calls } from "./api";
import { short, whole } from "./format";
import { t } from "./words";

interface Props {
  calls: Calls;
  parts: string[];
  window: number;
  actsAt: number;
  at: number;
  theme: string;
  onPick: (call: number) => void;
  onHover: (call: number) => void;
}

export function colour(part: string): string {
  return variable(`--part-${part.replaceAll(" ", "-")}`);
}

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Stack the parts. The top one comes first, because each is drawn over the one before, down to the axis. */
export function stacked(calls: Calls, parts: string[]): number[][] {
  const sums = new Array<number>(calls.tokens.length).fill(0);
  const layers = parts.map((part) => {
    const column = calls.parts[part] ?? [];
    column.forEach((n, i) => {
      sums[i] = (sums[i] ?? 0) + n;
    });
    return [...sums];
  });
  return layers.reverse();
}

/** How much higher than the rest of the chart the line without Ebbtide may make it. */
const MOST_RAISED = 2.5;

/** The top of the chart: the window and both lines, unless one would press the others flat against the ground. */
export function ceiling(calls: Calls, window: number): number {
  const most = calls.tokens.reduce((a, b) => Math.max(a, b), 0);
  const raw = calls.untouched.reduce((a, b) => Math.max(a, b), 0);
  const line = window <= 4 * Math.max(most, raw) ? window : 0;
  const sent = Math.max(most, line);
  return Math.max(sent, Math.min(raw, MOST_RAISED * sent)) * 1.08 || 1;
}

export function Chart({ calls, parts, window, actsAt, at, theme, onPick, onHover }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const chosen = useRef(at);
  chosen.current = at;

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const layers = stacked(calls, parts);
    const numbers = calls.tokens.map((_, n) => n + 1);
    const ink = variable("--faint");
    const grid = variable("--grid");
    const top = ceiling(calls, window);
    const alone = numbers.length === 1;
    // An area needs two points: a single call is a column.
    const bars = alone ? uPlot.paths.bars?.({ size: [0.2, 80] }) : undefined;
    const column = bars ? { paths: bars } : {};
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: element.clientHeight,
        padding: [14, 6, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: {
          x: { time: false, range: () => (alone ? [0, 2] : [1, numbers.length]) },
          y: { range: () => [0, top] },
        },
        axes: [
          {
            ...axis,
            size: 26,
            grid: { show: false },
            values: (_, splits) => splits.map((n) => (n % 1 || n < 1 || n > numbers.length ? "" : String(n))),
          },
          { ...axis, size: 46, values: (_, splits) => splits.map((n) => short(n)) },
        ],
        series: [
          {},
          ...[...parts].reverse().map((part) => ({
            stroke: variable("--panel"),
            width: 0.75,
            fill: colour(part),
            points: { show: false },
            ...column,
          })),
          { stroke: variable("--soft"), width: 1.25, dash: [2, 4], points: { show: alone, size: 6 } },
        ],
        hooks: {
          draw: [(u) => overlay(u, calls, window, actsAt, chosen.current)],
          setCursor: [(u) => onHover(u.cursor.idx === null || u.cursor.idx === undefined ? 0 : u.cursor.idx + 1)],
        },
      },
      [numbers, ...layers, calls.untouched],
      element,
    );
    plot.current = made;
    const picked = () => {
      const nth = made.cursor.idx;
      if (nth !== null && nth !== undefined) onPick(nth + 1);
    };
    made.over.addEventListener("click", picked);
    const sized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: element.clientHeight }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [calls, parts, window, actsAt, theme]);

  useEffect(() => plot.current?.redraw(false), [at]);

  const folds = calls.batches.filter((one) => one.fold).length;
  const said = [calls.tokens.length, whole(calls.tokens.at(-1) ?? 0), short(window), folds, calls.breaks.length];
  return <div class="chart" ref={box} role="img" aria-label={t("chart", ...said)} />;
}

function overlay(u: uPlot, calls: Calls, window: number, actsAt: number, at: number): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  const y = (tokens: number) => u.valToPos(tokens, "y", true);
  const x = (call: number) => u.valToPos(call, "x", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left - 6 * ratio, 0, width + 12 * ratio, top + height + 8 * ratio);
  ctx.clip();
  for (const [tokens, ink] of [
    [window, variable("--bad")],
    [actsAt, variable("--warn")],
  ] as const) {
    ctx.strokeStyle = ink;
    ctx.lineWidth = ratio;
    ctx.setLineDash([6 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(left, y(tokens));
    ctx.lineTo(left + width, y(tokens));
    ctx.stroke();
  }
  ctx.setLineDash([]);
  const size = 4 * ratio;
  for (const batch of calls.batches) {
    const place = x(batch.call);
    ctx.fillStyle = batch.undone ? variable("--faint") : variable(batch.fold ? "--fold" : "--edit");
    if (batch.fold) {
      ctx.globalAlpha = 0.55;
      ctx.fillRect(place - ratio / 2, top, ratio, height);
      ctx.globalAlpha = 1;
      diamond(ctx, place, top - 1 * ratio, size + ratio);
    } else {
      triangle(ctx, place, top - 2 * ratio, size - 0.5 * ratio, 1);
    }
  }
  labelBeyond(u, calls, ratio);
  ctx.fillStyle = variable("--bad");
  for (const one of calls.breaks) triangle(ctx, x(one.call), top + height, size, -1);
  if (at) {
    ctx.fillStyle = variable("--ink");
    ctx.fillRect(x(at) - ratio / 2, top, ratio, height);
    ctx.beginPath();
    ctx.arc(x(at), y(calls.tokens[at - 1] ?? 0), 3.5 * ratio, 0, 7);
    ctx.fill();
  }
  ctx.restore();
}

/** Say how high the line without Ebbtide goes where it leaves the chart. */
function labelBeyond(u: uPlot, calls: Calls, ratio: number): void {
  const most = calls.untouched.reduce((a, b) => Math.max(a, b), 0);
  const top = u.scales.y?.max ?? 0;
  if (most <= top) return;
  const { ctx } = u;
  const first = calls.untouched.findIndex((tokens) => tokens > top) + 1;
  ctx.fillStyle = variable("--soft");
  ctx.font = `${11 * ratio}px system-ui`;
  ctx.textAlign = "left";
  const words = `↑ ${short(most)} ${t("untouched")}`;
  const x = u.valToPos(first, "x", true) + 6 * ratio;
  const wide = ctx.measureText(words).width;
  ctx.fillText(words, Math.min(x, u.bbox.left + u.bbox.width - wide), u.bbox.top + 22 * ratio);
}

function triangle(ctx: CanvasRenderingContext2D, x: number, y: number, size: number, way: 1 | -1): void {
  ctx.beginPath();
  ctx.moveTo(x - size, y - way * size);
  ctx.lineTo(x + size, y - way * size);
  ctx.lineTo(x, y + way * size);
  ctx.fill();
}

function diamond(ctx: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  ctx.beginPath();
  ctx.moveTo(x, y - size);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y + size);
  ctx.lineTo(x - size, y);
  ctx.fill();
}
