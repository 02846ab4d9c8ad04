/** The Request tab: a request as the model saw it. A stub opens in place and shows what it replaced. */

import { useCallback, useMemo, useState } from "preact/hooks";
import { ask, type Item, type RequestPage, type Row } from "./api";
import { seen, short } from "./format";
import { useAsk, useCursor, usePages } from "./hooks";
import { Head, partOf, type Source, Text, Trouble } from "./item";
import { VirtualList } from "./list";
import { t } from "./words";

interface Props {
  source: Source;
  at: number;
  version: number;
}

export function RequestView({ source, at, version }: Props) {
  const path = `session/${source.key}/request`;
  const query = useMemo(() => ({ ...source.query, at: at || undefined }), [source, at]);
  const head = useAsk<RequestPage>(path, { ...query, limit: 1 }, version);
  const total = head.value?.total ?? 0;
  const name = `${source.key} ${JSON.stringify(query)}`;
  const load = useCallback(
    (start: number, limit: number) => ask<RequestPage>(path, { ...query, start, limit }).then((page) => page.rows),
    [path, query],
  );
  const { row, look } = usePages<Row>(name, version, total, load);
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

  if (head.error) return <Trouble error={head.error} />;
  const warm = head.value?.warm;
  const marks = new Set(head.value?.marks ?? []);
  return (
    <section aria-label={t("request")}>
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
  open: boolean;
  onToggle: () => void;
}

function RowView({ row, source, at, open, onToggle }: RowProps) {
  const stub = row.stub;
  return (
    <article class={stub ? "item stub" : "item"} data-kind={row.kind}>
      <button type="button" class="fold" aria-expanded={open} onClick={onToggle}>
        <Head item={row} part={row.part} />
        {stub && (
          <span class="reason">
            {t("tookOut")} <b class="mono">{seen(stub.by)}</b> · {t("tokens", short(-stub.saved))} · {seen(stub.reason)}
          </span>
        )}
        {!open && <span class="preview">{seen(row.text.slice(0, 400))}</span>}
      </button>
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
        {t("original")} · {value?.total ?? "…"} {t(value?.total === 1 ? "item" : "items")}
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
