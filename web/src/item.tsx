/** One item, which opens to its full text. Session content is always shown as text, never as markup. */

import { useState } from "preact/hooks";
import { ask, type Item, type Query, type TextPage } from "./api";
import { ending, seen, short, whole } from "./format";
import { worded } from "./hooks";
import { single, t } from "./words";

/** The session, and how a recorded file is simulated. */
export interface Source {
  key: string;
  query: Query;
}

export function Trouble({ error }: { error: string }) {
  return (
    <p class="trouble pad" role="alert">
      {error === "locked" ? t("locked") : `${t("failed")}: ${error}`}
    </p>
  );
}

export function partOf(item: Item): string {
  const kinds: Record<string, string> = {
    call: "tool calls",
    result: "tool results",
    thinking: "thinking",
    image: "images",
    document: "images",
  };
  return kinds[item.kind] ?? (["user", "assistant", "system"].includes(item.role) ? item.role : "other");
}

export function Head({ item, part }: { item: Item; part: string }) {
  return (
    <span class="head">
      <span class={`swatch part-${part.replaceAll(" ", "-")}`} />
      <b>{single(part)}</b>
      {item.name && <span class="mono tool">{seen(item.name)}</span>}
      {item.path && (
        <span class="mono path" title={seen(item.path)}>
          {seen(ending(item.path))}
        </span>
      )}
      {item.tier === 2 && <span class="chip">{seen(item.source)}</span>}
      {item.pinned && <span class="chip">{t("pinned")}</span>}
      <span class="grow" />
      <span class="faint amount" title={t("tokens", whole(item.tokens))}>
        {t("tokens", short(item.tokens))}
      </span>
    </span>
  );
}

/** The start of a text; the rest is fetched page by page by its handle. */
export function Text({ source, item, handle }: { source: Source; item: Item; handle: string }) {
  const [read, setRead] = useState<{ text: string; next: number | null; total: number; masked: number }>();
  const [error, setError] = useState("");
  const more = () => {
    const start = read?.next ?? 0;
    ask<TextPage>(`session/${source.key}/read`, { ...source.query, handle, start })
      .then((page) =>
        setRead({ text: (read?.text ?? "") + page.text, next: page.next, total: page.total, masked: page.masked }),
      )
      .catch((failed: unknown) => setError(worded(failed)));
  };
  const text = read?.text ?? item.text;
  const cut = read ? read.next !== null : item.chars > item.text.length;
  return (
    <div class="text">
      <pre dir="auto">{seen(text) || "∅"}</pre>
      {error && <Trouble error={error} />}
      <div class="under">
        {cut && handle && (
          <button type="button" class="link" onClick={more}>
            {t(read ? "more" : "whole")} · {whole(text.length)} / {whole(read?.total ?? item.chars)}
          </button>
        )}
        {!!read?.masked && <span class="faint">{t("masked", read.masked)}</span>}
      </div>
    </div>
  );
}
