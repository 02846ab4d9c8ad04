/** The Edits tab: every edit with its pass, reason, savings, and the text before and after. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Batch, type Edit, type Item, type Sides, type Summary, tell, type What } from "./api";
import type { Go } from "./app";
import { diff, folded } from "./diff";
import { dollars, ending, moment, seen, short } from "./format";
import { useAsk, useCursor, worded } from "./hooks";
import { partOf, type Source, Trouble } from "./item";
import { VirtualList } from "./list";
import { type Desk, PlaceholderActions } from "./placeholder";
import { Original } from "./request";
import { verdict } from "./story";
import { single, t } from "./words";

interface Props {
  source: Source;
  at: number;
  version: number;
  desk: Desk;
  summary: Summary | undefined;
  /** The edit to show. */
  edit: string;
}

type Line = { batch: Batch; edit?: Edit };

export function EditsView({ source, at, version, desk, summary, edit: wanted }: Props) {
  const { may, changed, go } = desk;
  const { value, error } = useAsk<{ batches: Batch[] }>(`session/${source.key}/edits`, source.query, version);
  const [open, setOpen] = useState("");
  const [failed, setFailed] = useState("");
  const lines = useMemo(() => {
    const batches = value ? [...value.batches].reverse() : [];
    return batches.flatMap((batch): Line[] => [{ batch }, ...batch.edits.map((edit) => ({ batch, edit }))]);
  }, [value]);
  const toggle = (id: string) => setOpen(open === id ? "" : id);
  const cursor = useCursor(source.key, lines.length, (n) => {
    const edit = lines[n]?.edit;
    if (edit) toggle(edit.id);
  });
  useEffect(() => {
    const place = lines.findIndex((line) => line.edit?.id === wanted && wanted);
    if (place >= 0) {
      setOpen(wanted);
      cursor.put(place);
    } else if (at) cursor.put(lines.findIndex((line) => line.batch.call <= at));
  }, [at, lines, wanted]);
  const change = (what: "undo" | "redo", batch: string) => {
    tell(`session/${source.key}/${what}`, { batch })
      .then(changed)
      .catch((error: unknown) => setFailed(worded(error)));
  };

  if (error) return <Trouble error={error} />;
  if (!value) return <p class="faint pad">{t("loading")}</p>;
  if (!lines.length) return <p class="faint pad">{t("noEdits")}</p>;
  const undone = value.batches.filter((batch) => batch.undone);
  return (
    <section aria-label={t("edits")}>
      {failed && <Trouble error={failed} />}
      {summary && <p class="story">{verdict(summary).join(" ")}</p>}
      <VirtualList name={`${source.key}${version}`} count={lines.length} estimate={58} cursor={cursor.row}>
        {(n) => {
          const line = lines[n];
          if (!line) return null;
          const { batch, edit } = line;
          if (!edit)
            return (
              <BatchHead batch={batch} go={go}>
                {may && !batch.undone && (
                  <button type="button" onClick={() => change("undo", batch.id)}>
                    {t("undo")}
                  </button>
                )}
                {may && batch.undone && batch.id === undone.at(-1)?.id && (
                  <button type="button" onClick={() => change("redo", batch.id)}>
                    {t("redo")}
                  </button>
                )}
              </BatchHead>
            );
          return (
            <article class={batch.undone ? "edit undone" : "edit"}>
              <button type="button" class="fold" aria-expanded={open === edit.id} onClick={() => toggle(edit.id)}>
                <span class="mono by">{seen(edit.by)}</span>
                <span class="what" title={seen(edit.what.path)}>
                  {seen(told(edit.what))}
                </span>
                <span class="why">{seen(edit.reason)}</span>
                <span class="number">{t("tokens", short(-edit.saved))}</span>
                <Money usd={edit.usd} worth={edit.worth} />
              </button>
              {open === edit.id && <Booked edit={edit} />}
              {open === edit.id && (
                <div class="with-link">
                  <PlaceholderActions
                    desk={desk}
                    at={batch.call}
                    edit={{ ...edit, batch: batch.id, batch_edits: batch.edits.length, call: batch.call }}
                    hasReason
                  />
                  <button
                    type="button"
                    class="link"
                    onClick={() => go({ tab: "request", at: batch.call, edit: edit.id })}
                  >
                    {t("showThere")} ›
                  </button>
                </div>
              )}
              {open === edit.id && <Diff source={source} id={edit.id} />}
            </article>
          );
        }}
      </VirtualList>
    </section>
  );
}

export function told(what: What): string {
  if (!what.items) return t("nothing");
  const name = [what.name, ending(what.path)].filter(Boolean).join(" ");
  if (what.kind) return `${single(partOf({ kind: what.kind, role: what.role } as Item))} ${name}`.trim();
  const where = what.first === what.last ? `${what.first}` : `${what.first}–${what.last}`;
  return `${t("items", what.items)}, ${t("messagesAt", where)}`;
}

/** In dollars if there is a price, else in input tokens. What has not paid for itself yet is no alarm: most will. */
function Money({ usd, worth }: { usd: number | null; worth: number }) {
  const owes = (usd ?? worth) < 0;
  const title = `${t(owes ? "notYet" : "worth")}: ${t("tokens", short(worth))}`;
  return (
    <span class={owes ? "number money owed" : "number money"} title={title}>
      {usd === null ? t("worthOf", short(worth)) : dollars(usd)}
    </span>
  );
}

function BatchHead({ batch, go, children }: { batch: Batch; go: Go; children: preact.ComponentChildren }) {
  return (
    <div class={batch.undone ? "batch undone" : "batch"}>
      <button type="button" class="link" onClick={() => go({ at: batch.call, tab: "request" })}>
        {t("call")} {batch.call}
      </button>
      <span class="faint mono">{batch.id}</span>
      <span class="faint">{moment(batch.at)}</span>
      <span class="chip">{batch.policy}</span>
      <span class="chip">{batch.level}</span>
      {batch.undone && <span class="chip bad">{t("undone")}</span>}
      <span class="grow" />
      <span>
        {short(batch.before)} → <b>{t("tokens", short(batch.after))}</b>
      </span>
      <span class="faint">{t("held", batch.held)}</span>
      <Money usd={batch.usd} worth={batch.worth} />
      {children}
    </div>
  );
}

function Booked({ edit }: { edit: Edit }) {
  return (
    <p class="booked faint">
      <span>
        {t("worth")}: {t("tokens", short(edit.worth))}
      </span>
      <span>{edit.rewritten ? t("rewrote", short(edit.rewritten)) : t("free")}</span>
      {(edit.usd ?? edit.worth) < 0 && <span>{t("notYet")}</span>}
      {edit.breaks_even !== null && edit.breaks_even > 0 && <span>{t("even", Math.ceil(edit.breaks_even))}</span>}
      {edit.paid_at !== null && edit.breaks_even !== 0 && <span>{t("paid", edit.paid_at)}</span>}
      {edit.handles.map((handle) => (
        <span key={handle} class="mono">
          {handle}
        </span>
      ))}
    </p>
  );
}

function Diff({ source, id }: { source: Source; id: string }) {
  const { value, error } = useAsk<Sides>(`session/${source.key}/edit`, { ...source.query, id });
  if (error) return <Trouble error={error} />;
  if (!value) return <p class="faint pad">{t("loading")}</p>;
  const long = value.before.length > 2;
  return (
    <div class="diff">
      {long ? <Lists source={source} sides={value} /> : <Lines before={value.before} after={value.after} />}
    </div>
  );
}

function Lines({ before, after }: { before: Item[]; after: Item[] }) {
  const lines = useMemo(() => {
    const text = (items: Item[]) => items.map((item) => item.text).join("\n");
    return folded(diff(text(before), text(after)));
  }, [before, after]);
  const signs = { same: " ", gone: "−", new: "+", skip: "⋯" };
  return (
    <pre class="lines" dir="auto">
      {lines.map((line, n) => (
        <span key={n} class={line.sign}>
          <i>{signs[line.sign]}</i>
          {line.sign === "skip" ? t("same", line.text) : seen(line.text)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

/** A compaction replaces many items: show them on one side, and their replacement on the other. */
function Lists({ source, sides }: { source: Source; sides: Sides }) {
  const kept = new Set(sides.after.map((item) => item.id));
  return (
    <div class="sides">
      <div>
        <h4>
          {t("before")} · {t("items", sides.before.length)}
        </h4>
        <div class="tall">
          {sides.before.map((item) => (
            <div key={item.id} class={kept.has(item.id) ? "" : "gone"}>
              <Original source={source} item={item} alone={false} />
            </div>
          ))}
        </div>
      </div>
      <div>
        <h4>
          {t("after")} · {t("items", sides.after.length)}
        </h4>
        <div class="tall">
          {sides.after.map((item, n) => (
            <div key={n} class={item.id ? "" : "new"}>
              {item.id ? (
                <Original source={source} item={item} alone={false} />
              ) : (
                <pre dir="auto">{seen(item.text)}</pre>
              )}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
