/** Line diff of two texts; all lines of both if they have too little in common. */

export interface Line {
  sign: "same" | "gone" | "new" | "skip";
  text: string;
}

/** Maximum number of changes to search for: with more, the texts have little in common and the search is slow. */
const MOST = 500;
const AROUND = 3;

export function diff(before: string, after: string): Line[] {
  const a = before === "" ? [] : before.split("\n");
  const b = after === "" ? [] : after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const middle = between(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...same(a.slice(0, head)), ...middle, ...same(a.slice(a.length - tail))];
}

function same(lines: string[]): Line[] {
  return lines.map((text) => ({ sign: "same", text }));
}

/** Myers' greedy search. Keeps the furthest point on each diagonal for every round, to walk back on. */
function between(a: string[], b: string[]): Line[] {
  const all: Line[] = [
    ...a.map((text): Line => ({ sign: "gone", text })),
    ...b.map((text): Line => ({ sign: "new", text })),
  ];
  if (!a.length || !b.length) return all;
  const most = Math.min(MOST, a.length + b.length);
  const reach = new Int32Array(2 * most + 3);
  const rounds: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    rounds.push(reach.slice(most - d, most + d + 3));
    for (let k = -d; k <= d; k += 2) {
      const from = most + 1 + k;
      let x = goesDown(k, d, reach[from - 1] ?? 0, reach[from + 1] ?? 0)
        ? (reach[from + 1] ?? 0)
        : (reach[from - 1] ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach[from] = x;
      if (x >= a.length && x - k >= b.length) return walked(a, b, rounds);
    }
  }
  return all;
}

function goesDown(k: number, d: number, left: number, right: number): boolean {
  return k === -d || (k !== d && left < right);
}

function walked(a: string[], b: string[], rounds: Int32Array[]): Line[] {
  const lines: Line[] = [];
  let x = a.length;
  let y = b.length;
  for (let d = rounds.length - 1; d >= 0; d--) {
    const reach = (k: number) => rounds[d]?.[k + d + 1] ?? 0;
    const k = x - y;
    const down = goesDown(k, d, reach(k - 1), reach(k + 1));
    const fromX = d ? reach(down ? k + 1 : k - 1) : 0;
    const fromY = d ? fromX - (down ? k + 1 : k - 1) : 0;
    while (x > fromX && y > fromY) {
      x--;
      y--;
      lines.push({ sign: "same", text: a[x] ?? "" });
    }
    if (!d) break;
    if (down) lines.push({ sign: "new", text: b[--y] ?? "" });
    else lines.push({ sign: "gone", text: a[--x] ?? "" });
  }
  return lines.reverse();
}

/** Leave out long runs of unchanged lines; keep a few lines around each change. */
export function folded(lines: Line[]): Line[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, n) => {
    if (line.sign !== "same") near.fill(1, Math.max(0, n - AROUND), n + AROUND + 1);
  });
  const shown: Line[] = [];
  let skipped = 0;
  const close = () => {
    if (skipped) shown.push({ sign: "skip", text: String(skipped) });
    skipped = 0;
  };
  lines.forEach((line, n) => {
    if (near[n]) {
      close();
      shown.push(line);
    } else skipped++;
  });
  close();
  return shown;
}
