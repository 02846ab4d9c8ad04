/** Hooks that the views share: requests to the server, keys, and pages of rows. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, type Query, Refused } from "./api";

export interface Asked<T> {
  value: T | undefined;
  error: string;
  /** Also while an older value is shown. */
  busy: boolean;
}

/** Fetch an answer; the previous one stays until the next arrives. An empty `path` fetches nothing. */
export function useAsk<T>(path: string, query: Query = {}, version = 0): Asked<T> {
  const [state, set] = useState<Asked<T> & { path: string }>({ value: undefined, error: "", busy: true, path });
  const told = JSON.stringify(query);
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    set((before) => ({ ...before, value: before.path === path ? before.value : undefined, busy: true, path }));
    ask<T>(path, query, stop.signal)
      .then((value) => !stop.signal.aborted && set({ value, error: "", busy: false, path }))
      .catch((error: unknown) => {
        if (!stop.signal.aborted) set({ value: undefined, error: worded(error), busy: false, path });
      });
    return () => stop.abort();
  }, [path, told, version]);
  return state;
}

export function worded(error: unknown): string {
  if (error instanceof Refused && error.status === 401) return "locked";
  return error instanceof Error ? error.message : String(error);
}

export type Keys = Record<string, (event: KeyboardEvent) => void>;

/** Handle keys while a view is open. Keys typed in a field, or pressed on a focused button, keep their meaning. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const heard = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const act = current.current[event.key];
      if (!act || (event.target instanceof HTMLElement && isFor(event.target, event.key))) return;
      event.preventDefault();
      act(event);
    };
    window.addEventListener("keydown", heard);
    return () => window.removeEventListener("keydown", heard);
  }, []);
}

/** Whether an element handles a key itself. */
function isFor(element: HTMLElement, key: string): boolean {
  if (key === "Escape") return false;
  // From the words that are searched for one goes down into what was found.
  if (element instanceof HTMLInputElement && element.type === "search") return !/^Arrow(Up|Down)$/.test(key);
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName)) return true;
  return key === "Enter" && /^(BUTTON|A)$/.test(element.tagName);
}

/**
 * The row of a list that the keyboard is on, and the keys that move it. The focus goes with it, so that a screen reader
 * says where one is. On another list it is on no row, from the first drawing on.
 */
export function useCursor(list: string, count: number, open: (row: number) => void) {
  const [spot, setSpot] = useState({ list, row: -1 });
  const row = spot.list === list ? Math.min(spot.row, count - 1) : -1;
  const put = (to: number) => setSpot({ list, row: to });
  const move = (to: number) => {
    if (!count) return;
    put(Math.max(0, Math.min(count - 1, to)));
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    requestAnimationFrame(() =>
      document.querySelector<HTMLElement>(".cursor button, button.cursor")?.focus({ preventScroll: true }),
    );
  };
  useKeys({
    ArrowDown: () => move(row + 1),
    j: () => move(row + 1),
    ArrowUp: () => move(row - 1),
    k: () => move(row - 1),
    PageDown: () => move(row + 10),
    PageUp: () => move(row - 10),
    Home: () => move(0),
    End: () => move(count - 1),
    Enter: () => row >= 0 && open(row),
  });
  return { row, put };
}

const PAGE = 100;
/** Milliseconds before rows that failed to load are requested again. */
const AGAIN = 1000;

type Pages<T> = Map<number, T[] | "asked">;

/**
 * Rows of a long list, fetched where they are looked at. `name` tells one list from another. Of a new version of the
 * same list the old rows are shown until the new ones have come: a session that grows does not flicker.
 */
export function usePages<T>(
  name: string,
  version: number,
  total: number,
  load: (start: number, limit: number) => Promise<T[]>,
) {
  const pages = useRef<Pages<T>>(new Map());
  const before = useRef<Pages<T>>(new Map());
  const known = useRef({ name, version });
  const [, redraw] = useState(0);
  if (known.current.name !== name || known.current.version !== version) {
    before.current = known.current.name === name ? pages.current : new Map();
    known.current = { name, version };
    pages.current = new Map();
  }
  const loader = useRef(load);
  loader.current = load;
  const look = useCallback(
    (first: number, last: number) => {
      for (let page = Math.floor(first / PAGE); page * PAGE < Math.min(last, total); page++) {
        if (pages.current.has(page)) continue;
        const asked = pages.current;
        asked.set(page, "asked");
        loader
          .current(page * PAGE, PAGE)
          .then((rows) => asked.set(page, rows))
          .catch(() => setTimeout(() => asked.delete(page) && asked === pages.current && look(first, last), AGAIN))
          .finally(() => redraw((n) => n + 1));
      }
    },
    [name, version, total],
  );
  const row = (n: number): T | undefined => {
    const [page, old] = [pages, before].map((one) => one.current.get(Math.floor(n / PAGE)));
    const shown = Array.isArray(page) ? page : old;
    return Array.isArray(shown) ? shown[n % PAGE] : undefined;
  };
  return { row, look };
}

/** State that is remembered between visits, if the browser allows it. */
export function useKept(name: string, first: string): [string, (value: string) => void] {
  const [value, set] = useState(() => {
    try {
      return localStorage.getItem(`ebb.${name}`) ?? first;
    } catch {
      return first;
    }
  });
  const keep = (next: string) => {
    set(next);
    try {
      localStorage.setItem(`ebb.${name}`, next);
    } catch {
      // A private window: it holds until the page is left.
    }
  };
  return [value, keep];
}
