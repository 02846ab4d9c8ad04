/** The Facts tab: the facts that every compaction keeps. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Item, Ledger } from "./api";
import { seen } from "./format";
import { useAsk } from "./hooks";
import { type Source, Text, Trouble } from "./item";
import { named, t } from "./words";

/** How many facts of a kind are shown at first: the newest ones. */
const FIRST = 40;

export function LedgerView({ source, at, version }: { source: Source; at: number; version: number }) {
  const { value, error } = useAsk<Ledger>(`session/${source.key}/ledger`, { ...source.query, at }, version);
  if (error) return <Trouble error={error} />;
  if (!value) return <p class="faint pad">{t("loading")}</p>;
  return (
    <section class="ledger" aria-label={t("ledger")}>
      <Facts title={t("words")} facts={value.words}>
        {(one) => <Seen source={source} handle={one.handle} text={one.text} />}
      </Facts>
      <Facts title={t("stated")} facts={value.stated}>
        {(one) => <Seen source={source} handle={one.handle} text={one.text} />}
      </Facts>
      <Facts title={t("todos")} facts={value.todos}>
        {(one) => (
          <p>
            <span class="chip">{seen(one.status)}</span> {seen(one.text)}
          </p>
        )}
      </Facts>
      <Facts title={t("files")} facts={value.files}>
        {(one) => (
          <p class="mono">
            {seen(one.path)}{" "}
            {one.did.map((verb) => (
              <span key={verb} class={`chip ${verb}`}>
                {named(verb === "read" ? "didRead" : verb)}
              </span>
            ))}
          </p>
        )}
      </Facts>
      <Facts title={t("commands")} facts={value.commands}>
        {(one) => (
          <Seen source={source} handle={one.handle} text={one.text} mono>
            {(one.failed || one.status !== null) && (
              <span class={one.failed ? "chip bad" : "chip good"}>
                {one.status ? t("exit", one.status) : one.failed ? "✗" : "✓"}
              </span>
            )}
          </Seen>
        )}
      </Facts>
      <Facts title={t("troubles")} facts={value.troubles}>
        {(one) => (
          <Seen source={source} handle={one.handle} text={`${one.about}\n${one.line}`} mono>
            <span class={one.open ? "chip bad" : "chip good"}>{one.open ? "✗" : "✓"}</span>
          </Seen>
        )}
      </Facts>
      {value.plan && (
        <Facts title={t("plan")} facts={[value.plan]}>
          {(text) => <pre dir="auto">{seen(text)}</pre>}
        </Facts>
      )}
    </section>
  );
}

function Facts<T>({ title, facts, children }: { title: string; facts: T[]; children: (fact: T) => ComponentChildren }) {
  const [all, setAll] = useState(false);
  const newest = [...facts].reverse();
  const shown = all ? newest : newest.slice(0, FIRST);
  return (
    <div class="card facts">
      <h3>
        {title} <span class="faint">{facts.length}</span>
      </h3>
      {!facts.length && <p class="faint">{t("nothing")}</p>}
      {shown.map((fact, n) => (
        <div key={n}>{children(fact)}</div>
      ))}
      {shown.length < facts.length && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          {t("more")} · {facts.length - shown.length}
        </button>
      )}
    </div>
  );
}

interface SeenProps {
  source: Source;
  handle: string;
  text: string;
  mono?: boolean;
  children?: ComponentChildren;
}

/** A fact, and the item that it comes from. */
function Seen({ source, handle, text, mono = false, children }: SeenProps) {
  const [open, setOpen] = useState(false);
  const item = { text, chars: text.length + 1 } as Item;
  return (
    <>
      <button type="button" class={mono ? "fact mono" : "fact"} aria-expanded={open} onClick={() => setOpen(!open)}>
        {children}
        <span>{seen(text)}</span>
      </button>
      {open && <Text source={source} item={item} handle={handle} />}
    </>
  );
}
