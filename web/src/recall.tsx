/** The Recall tab: search everything that was recorded, and read the exact text of each hit. */

import { useEffect, useState } from "preact/hooks";
import type { Hit, Item } from "./api";
import type { Go } from "./app";
import { seen } from "./format";
import { useAsk, useCursor } from "./hooks";
import { partOf, type Source, Text, Trouble } from "./item";
import type { Place } from "./route";
import { single, t } from "./words";

/** Milliseconds after the last key before the search starts. */
const PAUSE = 200;

export function RecallView({ source, place, go, stored }: { source: Source; place: Place; go: Go; stored: boolean }) {
  const [words, setWords] = useState(place.query);
  const [across, setAcross] = useState(false);
  const [open, setOpen] = useState("");
  const asked = place.query.trim();
  const { value, error, busy } = useAsk<{ query: string; hits: Hit[] }>(asked ? `session/${source.key}/recall` : "", {
    ...source.query,
    q: asked,
    across: across ? 1 : undefined,
  });
  const hits = asked ? (value?.hits ?? []) : [];
  useEffect(() => {
    const timer = setTimeout(() => words !== place.query && go({ query: words }, true), PAUSE);
    return () => clearTimeout(timer);
  }, [words]);
  const toggle = (hit: Hit | undefined) => hit && setOpen(open === nameOf(hit) ? "" : nameOf(hit));
  const cursor = useCursor(asked, hits.length, (n) => toggle(hits[n]));
  useEffect(() => {
    document.querySelector(".hit.cursor")?.scrollIntoView({ block: "nearest" });
  }, [cursor.row]);

  return (
    <section class="recall" aria-label={t("recall")}>
      <div class="ask">
        <input
          type="search"
          placeholder={t("askRecall")}
          aria-label={t("askRecall")}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        {stored && (
          <label>
            <input type="checkbox" checked={across} onChange={(event) => setAcross(event.currentTarget.checked)} />
            {t("across")}
          </label>
        )}
      </div>
      {asked && error && <Trouble error={error} />}
      {asked && !busy && !error && !hits.length && <p class="faint pad">{t("noHits")}</p>}
      {hits.map((hit, n) => (
        <article key={nameOf(hit)} class={n === cursor.row ? "card hit cursor" : "card hit"}>
          <button type="button" class="fold" aria-expanded={open === nameOf(hit)} onClick={() => toggle(hit)}>
            <span class="head">
              <b>{single(partOf(hit as unknown as Item))}</b>
              {hit.name && <span class="mono tool">{seen(hit.name)}</span>}
              {hit.path && <span class="mono path">{seen(hit.path)}</span>}
              {hit.copies > 1 && <span class="chip">{t("times", hit.copies)}</span>}
              <span class="grow" />
              <span class="faint nowrap">
                {t("line")} {hit.line}
              </span>
              <span class="faint mono">{hit.handle}</span>
            </span>
            <span class="snippet" dir="auto">
              {pieces(hit.snippet, hit.spans).map((piece, i) =>
                piece.hit ? <mark key={i}>{seen(piece.text)}</mark> : <span key={i}>{seen(piece.text)}</span>,
              )}
            </span>
          </button>
          {open === nameOf(hit) && (
            <Text
              source={{ ...source, query: { ...source.query, session: across ? hit.session : undefined } }}
              item={{ text: hit.snippet, chars: hit.total } as Item}
              handle={hit.handle}
            />
          )}
        </article>
      ))}
    </section>
  );
}

function nameOf(hit: Hit): string {
  return `${hit.session} ${hit.handle} ${hit.start}`;
}

/** Split a text at its matches. Positions count characters as Python does, not UTF-16 units. */
export function pieces(text: string, spans: [number, number][]): { text: string; hit: boolean }[] {
  const letters = Array.from(text);
  const found: { text: string; hit: boolean }[] = [];
  let at = 0;
  const add = (to: number, hit: boolean) => {
    if (to > at) found.push({ text: letters.slice(at, to).join(""), hit });
    at = Math.max(at, to);
  };
  for (const [start, end] of spans) {
    add(start, false);
    add(end, true);
  }
  add(letters.length, false);
  return found;
}
