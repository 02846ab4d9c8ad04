/** What views share: asking the server, keys, and pages of rows. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ask, type Query, Refused } from "./api";

export interface Asked<T> {
  value: T | undefined;
  error: string;
  /** Also while an older value is shown. */
  busy: boolean;
}

/** The answer to a question; the last one stays until the next has come. `path` empty asks nothing. */
export function useAsk<T>(path: string, query: Query = {}, version = 0): Asked<T> {
  const [state, set] = useState<Asked<T> & { path: string }>({ value: undefined, error: "", busy: true, path });
  const told = JSON.stringify(query);
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController();
    set((before) => ({ ...before, value: before.path === path ? before.value : undefined, busy: true, path }));
    ask<T>(path, query, stop.signal)
      .then((value) => set({ value, error: "", busy: false, path }))
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

/** Keys while a view is there. Whoever types in a field is left alone, but for Escape. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const heard = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      const act = current.current[event.key];
      if (!act || (typing && event.key !== "Escape")) return;
      event.preventDefault();
      act(event);
    };
    window.addEventListener("keydown", heard);
    return () => window.removeEventListener("keydown", heard);
  }, []);
}

const PAGE = 100;

/** Rows of a long list, fetched where they are looked at. `name` tells one list from another. */
export function usePages<T>(name: string, total: number, load: (start: number, limit: number) => Promise<T[]>) {
  const pages = useRef(new Map<number, T[] | "asked">());
  const known = useRef(name);
  const [, redraw] = useState(0);
  if (known.current !== name) {
    known.current = name;
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
          .catch(() => asked.delete(page))
          .finally(() => redraw((n) => n + 1));
      }
    },
    [total],
  );
  const row = (n: number): T | undefined => {
    const page = pages.current.get(Math.floor(n / PAGE));
    return page === "asked" ? undefined : page?.[n % PAGE];
  };
  return { row, look };
}

/** Remembered between visits, where the browser allows it. */
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
