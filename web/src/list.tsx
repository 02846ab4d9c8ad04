/** A list of any length: only the visible rows are in the page. The page scrolls, not the list. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights } from "./heights";

export const SCROLLER = "main";
const BEYOND = 6;

interface Props {
  /** A new name means a new list: heights are measured again. */
  name: string;
  count: number;
  estimate: number;
  /** The row that the keyboard is on; -1 for none. It is scrolled into view when it moves. */
  cursor?: number;
  onRange?: (first: number, last: number) => void;
  children: (row: number) => ComponentChildren;
}

export function VirtualList({ name, count, estimate, cursor = -1, onRange, children }: Props) {
  const heights = useMemo(() => new Heights(count, estimate), [name, count, estimate]);
  const box = useRef<HTMLDivElement>(null);
  const [, redraw] = useState(0);
  const [seen, setSeen] = useState({ y: 0, height: 900 });

  useLayoutEffect(() => {
    const scroller = document.getElementById(SCROLLER);
    if (!scroller) return;
    const look = () => {
      const top = box.current ? box.current.getBoundingClientRect().top - scroller.getBoundingClientRect().top : 0;
      setSeen((was) => {
        const now = { y: Math.max(0, -top), height: scroller.clientHeight };
        return was.y === now.y && was.height === now.height ? was : now;
      });
    };
    look();
    scroller.addEventListener("scroll", look, { passive: true });
    const sized = new ResizeObserver(look);
    sized.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", look);
      sized.disconnect();
    };
  }, []);

  const measure = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let grew = 0;
        for (const entry of entries) {
          const row = Number((entry.target as HTMLElement).dataset.row);
          if (entry.target.isConnected) grew += Math.abs(heights.set(row, entry.target.getBoundingClientRect().height));
        }
        if (grew) redraw((n) => n + 1);
      }),
    [heights],
  );
  useEffect(() => () => measure.disconnect(), [measure]);

  const [first, last] = heights.range(seen.y, seen.height, BEYOND);
  useEffect(() => onRange?.(first, last), [first, last, onRange]);

  useEffect(() => {
    const scroller = document.getElementById(SCROLLER);
    if (cursor < 0 || !scroller || !box.current) return;
    const start = scroller.scrollTop + box.current.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
    const top = start + heights.top(cursor);
    const bottom = start + heights.top(cursor + 1);
    const above = document.getElementById("bar")?.offsetHeight ?? 0;
    if (top < scroller.scrollTop + above) scroller.scrollTop = top - above - 4;
    else if (bottom > scroller.scrollTop + scroller.clientHeight)
      scroller.scrollTop = Math.min(top - above - 4, bottom - scroller.clientHeight + 8);
  }, [cursor, heights]);

  const rows = [];
  for (let row = first; row < last; row++) {
    rows.push(
      <div
        key={`${name}:${row}`}
        data-row={row}
        class={row === cursor ? "row cursor" : "row"}
        style={{ transform: `translateY(${heights.top(row)}px)` }}
        ref={(element) => {
          if (element) measure.observe(element);
        }}
      >
        {children(row)}
      </div>,
    );
  }
  return (
    <div ref={box} class="list" style={{ height: `${heights.total}px` }}>
      {rows}
    </div>
  );
}
