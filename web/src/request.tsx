/** The Request tab: a request as the model saw it. A stub opens in place and shows what it replaced. */

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { ask, type Edge, type Item, type RequestPage, type Row } from "./api";
import { seen, short } from "./format";
import { useAsk, useCursor, usePages } from "./hooks";
import { Head, partOf, type Source, Text, Trouble } from "./item";
import { VirtualList } from "./list";
import { type Desk, PlaceholderActions } from "./placeholder";
import { t } from "./words";

interface Props {
  source: Source;
  at: number;
  version: number;
  desk: Desk;
  /** The edit whose placeholder is to be shown. */
  edit: string;
  /** Called when the first rows are there. */
  onRows: () => void;
}

export function RequestView({ source, at, version, desk, edit, onRows }: Props) {
  const path = `session/${source.key}/request`;
  const query = useMemo(() => ({ ...source.query, at: at || undefined }), [source, at]);
  const head = useAsk<RequestPage>(path, { ...query, limit: 1, find: edit || undefined }, version);
  const total = head.value?.total ?? 0;
  const name = `${source.key} ${JSON.stringify(query)}`;
  const load = useCallback(
    (start: number, limit: number) => ask<RequestPage>(path, { ...query, start, limit }).then((page) => page.rows),
    [path, query],
  );
  const { row, look } = usePages<Row>(name, version, total, load);
  const hasRows = !!head.error || (!!head.value && (!total || !!row(0)));
  useEffect(() => {
    if (hasRows) onRows();
  }, [hasRows]);
  const edge = useAsk<Edge>(at && hasRows ? `session/${source.key}/edge` : "", query, version);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());

  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  };
  const cursor = useCursor(name, total, (n) => {
    const one = row(n);
    if (one) toggle(one.id);
  });
  const found = edit ? head.value?.place : undefined;
  useEffect(() => {
    if (found !== undefined && found >= 0) cursor.put(found);
  }, [found, edit, at]);

  if (head.error) return <Trouble error={head.error} />;
  const warm = edge.value?.warm;
  const marks = new Set(edge.value?.marks ?? []);
  return (
    <section aria-label={t("request")}>
      {found === -1 && <p class="faint">{t("noPlaceholder")}</p>}
      <VirtualList name={name} count={total} estimate={92} cursor={cursor.row} onRange={look}>
        {(n) => {
          const one = row(n);
          if (!one) return <div class="item ghost" />;
          const after = row(n + 1);
          const ends = !after || after.out !== one.out;
          return (
            <>
              <RowView
                row={one}
                source={source}
                at={at}
                desk={desk}
                open={open.has(one.id)}
                onToggle={() => {
                  cursor.put(n);
                  toggle(one.id);
                }}
              />
              {ends && marks.has(one.out) && (
                <div class="pin" title={t("mark")}>
                  ⚑ {t("mark")}
                </div>
              )}
              {ends && !!warm?.messages && warm.messages === one.out + 1 && (
                <div class="tide">
                  <span>
                    {t("warmTo")} · {t("tokens", short(warm.tokens))} · {warm.reason}
                  </span>
                </div>
              )}
            </>
          );
        }}
      </VirtualList>
    </section>
  );
}

interface RowProps {
  row: Row;
  source: Source;
  at: number;
  desk: Desk;
  open: boolean;
  onToggle: () => void;
}

function RowView({ row, source, at, desk, open, onToggle }: RowProps) {
  const stub = row.stub;
  return (
    <article class={stub ? "item stub" : "item"} data-kind={row.kind}>
      <button type="button" class="fold" aria-expanded={open} onClick={onToggle}>
        <Head item={row} part={row.part} />
        {stub && (
          <span class="reason">
            {t("editMark")} {t("atCall", stub.call)} · {t("tokens", short(-stub.saved))} · {seen(stub.reason)} ·{" "}
            <span class="mono">{seen(stub.by)}</span>
          </span>
        )}
        {!open && <span class="preview">{seen(row.text.slice(0, 400))}</span>}
      </button>
      {stub && <PlaceholderActions desk={desk} at={at} edit={stub} />}
      {open && <Text source={source} item={row} handle={stub ? "" : row.id} />}
      {open && stub && <Under source={source} at={at} row={row} />}
    </article>
  );
}

/** The originals that a stub replaced. Each opens by its handle. */
function Under({ source, at, row }: { source: Source; at: number; row: Row }) {
  const edit = row.stub?.id ?? "";
  const { value, error } = useAsk<{ total: number; rows: Item[] }>(`session/${source.key}/under`, {
    ...source.query,
    at: at || undefined,
    edit,
  });
  if (error) return <Trouble error={error} />;
  return (
    <div class="originals">
      <h4>
        {t("original")} · {t("items", value?.total ?? "…")}
      </h4>
      {value?.rows.map((item) => (
        <Original key={item.id} source={source} item={item} alone={value.total === 1} />
      ))}
    </div>
  );
}

export function Original({ source, item, alone }: { source: Source; item: Item; alone: boolean }) {
  const [open, setOpen] = useState(alone);
  return (
    <article class="item original">
      <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Head item={item} part={partOf(item)} />
        {!open && <span class="preview">{seen(item.text.slice(0, 200))}</span>}
      </button>
      {open && <Text source={source} item={item} handle={item.id} />}
    </article>
  );
}
