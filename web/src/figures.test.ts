import { describe, expect, test, vi } from "vitest";
import { address, ask, type Calls, type Summary } from "./api";
import { ceiling } from "./chart";
import { diff, folded } from "./diff";
import { ago, dollars, lasting, percent, seen, short } from "./format";
import { Heights } from "./heights";
import { pieces } from "./recall";
import { format, HOME, parse, TABS } from "./route";
import { story } from "./story";
import { speak, t } from "./words";

describe("figures", () => {
  test("tokens are short, and never rounded up into another unit's look", () => {
    expect([0, 999, 1000, 1049, 12_345, 99_949, 160_938, 999_949, 999_950, 6_200_000].map(short)).toEqual([
      "0",
      "999",
      "1k",
      "1k",
      "12.3k",
      "99.9k",
      "160.9k",
      "999.9k",
      "1M",
      "6.2M",
    ]);
  });
  test("money shows what there is of it, and a loss by its sign", () => {
    expect([null, 0, 12.345, 0.0421, 0.00012, -0.5].map(dollars)).toEqual([
      "–",
      "$0",
      "$12.35",
      "$0.0421",
      "$0.00012",
      "−$0.50",
    ]);
  });
  test("what hides or turns words is written out", () => {
    expect(seen("a\u202eb\u200bc\u{e0041}\x07 水位\n\tok")).toBe("a\\u202eb\\u200bc\\u{e0041}\\x07 水位\n\tok");
  });
  test("a length of time is in its largest unit", () => {
    expect([14, 300, 3600, 79_598, 400_000].map(lasting)).toEqual(["14 s", "300 s", "60 min", "22 h", "5 d"]);
  });
  test("shares and time", () => {
    expect([0, 0.004, 0.5, 1].map(percent)).toEqual(["0%", "0.4%", "50%", "100%"]);
    expect(ago("2026-01-01T00:00:00Z", Date.parse("2026-01-01T02:00:00Z"))).toEqual({ n: 2, unit: "h" });
  });
});

describe("where one is", () => {
  test("a place survives the way through the address", () => {
    for (const tab of TABS) {
      const place = { key: "0a1b", tab, at: 12, query: "水位 a&b=#?", policy: "opencode", window: 40_000, edit: "e1" };
      expect(parse(format(place))).toEqual(place);
    }
    expect(parse(format({ ...HOME, query: "x" }))).toEqual({ ...HOME, query: "x" });
  });
  test("what is no place of ours is the list", () => {
    for (const hash of ["", "#", "#/s/../x", "#/s/javascript:alert(1)/edits", "#/other/0a1b", "#token=abc"]) {
      expect(parse(hash).key).toBe("");
    }
    expect(parse("#/s/0a/nonsense?at=-3").tab).toBe("request");
    expect(parse("#/s/0a/edits?at=1e9").at).toBe(0);
  });
  test("an answer that breaks off is not taken for one", async () => {
    const half = async () => new Response('{"batches": [', { status: 200 });
    const refused = async () => new Response("not JSON", { status: 500, statusText: "broke" });
    vi.stubGlobal("fetch", half);
    await expect(ask("session/0a/edits")).rejects.toThrow(SyntaxError);
    vi.stubGlobal("fetch", refused);
    await expect(ask("session/0a/edits")).rejects.toThrow("broke");
    vi.unstubAllGlobals();
  });
  test("questions leave out what is not asked", () => {
    expect(address("x", { a: undefined, b: "", c: 0, d: "ü&" })).toBe("/api/x?c=0&d=%C3%BC%26");
  });
});

describe("lines", () => {
  /** What the diff claims each side was. */
  const side = (lines: ReturnType<typeof diff>, sign: "gone" | "new") =>
    lines.filter((line) => line.sign === "same" || line.sign === sign).map((line) => line.text);

  test("both sides can be read back from any diff", () => {
    const letters = ["a", "b", "c", ""];
    let seed = 7;
    const next = (n: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % n;
    };
    for (let round = 0; round < 400; round++) {
      const text = () => Array.from({ length: 1 + next(9) }, () => letters[next(4)] ?? "");
      const [before, after] = [text(), text()];
      const lines = diff(before.join("\n"), after.join("\n"));
      expect(side(lines, "gone").join("\n")).toBe(before.join("\n"));
      expect(side(lines, "new").join("\n")).toBe(after.join("\n"));
    }
  });
  test("it is short where little changed", () => {
    const many = Array.from({ length: 900 }, (_, n) => `line ${n}`);
    const lines = diff(many.join("\n"), many.with(450, "other").join("\n"));
    expect(lines.filter((line) => line.sign !== "same")).toEqual([
      { sign: "gone", text: "line 450" },
      { sign: "new", text: "other" },
    ]);
    expect(folded(lines).map((line) => line.sign)).toEqual([
      "skip",
      "same",
      "same",
      "same",
      "gone",
      "new",
      "same",
      "same",
      "same",
      "skip",
    ]);
  });
  test("texts with nothing in common are all gone and all new, at once", () => {
    const a = Array.from({ length: 4000 }, (_, n) => `a${n}`).join("\n");
    const b = Array.from({ length: 4000 }, (_, n) => `b${n}`).join("\n");
    const lines = diff(a, b);
    expect(side(lines, "gone")).toHaveLength(4000);
    expect(side(lines, "new")).toHaveLength(4000);
  });
});

describe("rows of different heights", () => {
  test("tops add up whatever was measured, in whatever order", () => {
    const heights = new Heights(10_000, 50);
    for (const row of [9000, 3, 500, 3]) heights.set(row, 120);
    expect(heights.total).toBe(10_000 * 50 + 3 * 70);
    expect(heights.top(4)).toBe(4 * 50 + 70);
    expect(heights.at(heights.top(9001))).toBe(9001);
    expect(heights.at(heights.top(9001) - 1)).toBe(9000);
    expect(heights.at(1e9)).toBe(9999);
  });
  test("only what is in sight is drawn", () => {
    const heights = new Heights(10_000, 50);
    const [first, last] = heights.range(250_000, 800, 5);
    expect(first).toBe(4995);
    expect(last - first).toBeLessThan(30);
    expect(new Heights(0, 50).range(0, 800, 5)).toEqual([0, 0]);
  });
});

const summary = {
  calls: 76,
  window: 40_000,
  edits: 55,
  batches: 11,
  removed: 137_000,
  summaries: 3,
  peak: 27_300,
  untouched_peak: 160_000,
  untouched_over: 60,
  cost: 1.02,
  saved_usd: 2.64,
  saved_share: 0.721,
  played: false,
} as Summary;

describe("what happened in a session, in a sentence", () => {
  test("the saving comes first, then why", () => {
    expect(story(summary)[0]).toBe("Saved $2.64, 72% of the cost without Ebbtide.");
    expect(story(summary).join(" ")).toContain(
      "grown to 160k tokens in a window of 40k; the largest request had 27.3k",
    );
  });
  test("of a simulated file it is what would have been", () => {
    expect(story({ ...summary, played: true })[0]).toContain("Would have saved $2.64");
  });
  test("a loss is said to be one", () => {
    expect(story({ ...summary, saved_usd: -0.02, saved_share: -0.01 })[0]).toContain("cost $0.0200 more");
  });
  test("without a price the share is still known, and without edits nothing is claimed", () => {
    expect(story({ ...summary, saved_usd: null })[0]).toBe("Saved 72% of the cost without Ebbtide.");
    expect(story({ ...summary, edits: 0 })).toEqual(["Nothing was removed: at most 27.3k of 40k tokens were used."]);
  });
});

describe("the chart's height", () => {
  const calls = (tokens: number, untouched: number) => ({ tokens: [tokens], untouched: [untouched] }) as Calls;
  test("the line without Ebbtide is in sight, unless it would press all else flat", () => {
    expect(ceiling(calls(53_000, 160_000), 100_000)).toBeGreaterThan(160_000);
    expect(ceiling(calls(53_000, 5_300_000), 100_000)).toBeLessThan(600_000);
  });
});

describe("words", () => {
  test("what matched is cut out by characters, as the server counts them", () => {
    expect(pieces("a😀水位b", [[2, 4]])).toEqual([
      { text: "a😀", hit: false },
      { text: "水位", hit: true },
      { text: "b", hit: false },
    ]);
  });
  test("both languages fill in what is told", () => {
    expect(t("held", 3)).toBe("active in 3 calls");
    expect([1, 11].map((n) => t("held", n))).toEqual(["active in 1 call", "active in 11 calls"]);
    expect([t("batches", "1"), t("batches", "2"), t("tokens", "−1")]).toEqual(["1 batch", "2 batches", "−1 token"]);
    expect([t("breaksSeen", 1), t("same", "1"), t("pause", 1, 1)]).toEqual([
      "1 cache break",
      "1 line unchanged",
      "1 after the previous call; cached for 1",
    ]);
    expect([1, 2].map((n) => t("storySummaries", n))).toEqual([
      "1 summary took the place of old turns.",
      "2 summaries took the place of old turns.",
    ]);
    speak("zh");
    expect(t("held", 3)).toBe("在 3 次调用中有效");
    speak("en");
  });
});
