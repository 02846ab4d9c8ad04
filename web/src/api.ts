/** Types of the server's answers, and the function that asks for them. All of it is shown as text. */

export interface Listed {
  key: string;
  session: string;
  project: string;
  title: string;
  messages: number;
  bytes: number;
  modified: string;
  stored: boolean;
  source: "store" | "file" | "claude-code" | "codex";
  model: string;
  /** In the window, as far as a glance at the file shows. */
  tokens: number;
  window: number;
  /** Null until the session has been added up. */
  figures?: RowFigures | null;
}

export interface RowFigures {
  calls: number;
  model: string;
  tokens: number;
  window: number;
  cost: number | null;
  saved_usd: number | null;
  /** Whether it is what Ebbtide would have saved. */
  simulated: boolean;
}

export interface Totals {
  sessions: number;
  calls: number;
  cost: number | null;
  priced: number;
  saved_usd: number | null;
  /** Sessions that Ebbtide took part in. */
  ours: number;
}

export interface Sessions {
  version: string;
  allow_undo: boolean;
  policies: string[];
  arms: string[];
  setting: { policy: string; window: number };
  total: number;
  /** Sessions that are still to be added up. */
  waiting: number;
  totals: Totals;
  sessions: Listed[];
}

/** What is known as soon as a session is open. */
export interface Opened extends Listed {
  played: boolean;
  policy: string;
  auto_at: number;
  wire: string;
  models: string[];
  calls: number;
  undone: string[];
  refusals: string[];
  /** Commands for a terminal, with BATCH or ITEM to be filled in. */
  commands: { undo: string; show: string };
}

/** What takes a walk through all requests. */
export interface Summary extends Opened {
  batches: number;
  edits: number;
  summaries: number;
  removed: number;
  untouched: number;
  peak: number;
  untouched_peak: number;
  /** Calls that would not have fitted the window. */
  untouched_over: number;
  hit_rate: number | null;
  breaks: number;
  diagnosis: string | null;
  cost: number | null;
  saved_usd: number | null;
  saved_share: number;
  estimated: boolean;
  prices: string[];
  basis: string;
}

export interface Break {
  call: number;
  lost: number;
  cause: string;
  detail: string;
  /** The batch of edits that caused it, if one did. */
  batch: string;
}

export interface BatchMark {
  id: string;
  call: number;
  fold: boolean;
  edits: number;
  saved: number;
  undone: boolean;
}

type Column = (number | null)[];

export interface Calls {
  at: number[];
  model: string[];
  tokens: number[];
  untouched: number[];
  billed: boolean[];
  items: number[];
  parts: Record<string, number[]>;
  read: Column;
  write: Column;
  fresh: Column;
  output: Column;
  warm: number[];
  cost: Column;
  breaks: Break[];
  diagnosis: string | null;
  hit_rate: number | null;
  batches: BatchMark[];
}

export interface Item {
  id: string;
  message: number;
  role: string;
  kind: string;
  name: string;
  path: string;
  tokens: number;
  tier: number;
  source: string;
  pinned: boolean;
  text: string;
  chars: number;
}

export interface EditFacts {
  id: string;
  by: string;
  reason: string;
  saved: number;
  first: string;
  last: string;
  handles: string[];
}

export interface Row extends Item {
  place: number;
  out: number;
  part: string;
  stub?: EditFacts & { batch: string; batch_edits: number; call: number; covers: number };
}

export interface Warm {
  messages: number;
  tokens: number;
  reason: string;
}

export interface RequestPage {
  at: number;
  total: number;
  tokens: number;
  /** Where the placeholder is that was asked for; -1 if it is not in this request. */
  place: number;
  rows: Row[];
}

export interface Edge {
  warm: Warm | null;
  marks: number[];
}

export interface What {
  items: number;
  kind: string;
  role: string;
  name: string;
  path: string;
  first: number;
  last: number;
}

export interface Edit extends EditFacts {
  what: What;
  worth: number;
  usd: number | null;
  rewritten: number;
  breaks_even: number | null;
  paid_at: number | null;
}

export interface Batch {
  id: string;
  call: number;
  at: number;
  policy: string;
  level: string;
  before: number;
  after: number;
  undone: boolean;
  held: number;
  rewritten: number;
  worth: number;
  usd: number | null;
  saved: number;
  paid: boolean;
  edits: Edit[];
}

export interface Sides extends EditFacts {
  what: What;
  batch: string;
  call: number;
  before: Item[];
  after: Item[];
}

export interface CacheMap {
  at: number;
  overhead: number;
  messages: { tokens: number; role: string; ours: boolean }[];
  warm: Warm;
  marks: number[];
  ttl: number;
  usage: { input: number; cache_read: number; cache_write: number; output: number } | null;
  break: Break | null;
  pause: number | null;
}

export interface Ledger {
  items: number;
  words: { handle: string; text: string }[];
  stated: { handle: string; text: string }[];
  files: { path: string; did: string[]; times: number; handle: string }[];
  commands: { handle: string; text: string; status: number | null; failed: boolean; times: number; lines: string[] }[];
  troubles: { handle: string; about: string; line: string; open: boolean; by: string[] }[];
  todos: { text: string; status: string }[];
  plan: string;
}

export interface Hit {
  handle: string;
  session: string;
  message: number;
  role: string;
  kind: string;
  name: string;
  path: string;
  line: number;
  start: number;
  snippet: string;
  spans: [number, number][];
  total: number;
  copies: number;
}

export interface TextPage {
  text: string;
  start: number;
  end: number;
  total: number;
  next: number | null;
  masked: number;
  kind: string;
  name: string;
}

export interface Scored {
  policy: string;
  cost: number;
  tokens: number;
  peak: number;
  breaks: number;
  /** Calls over the window. */
  over: number;
  hit_rate: number;
  /** Share of reused names that were still in the request, and the share with those that recall finds. */
  kept: number | null;
  reachable: number | null;
  series: number[];
}

export interface Comparison {
  window: number;
  calls: number;
  /** Models without a known price. */
  unpriced: string[];
  arms: Scored[];
}

export type Query = Record<string, string | number | undefined>;

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function answered<T>(response: Response): Promise<T> {
  // An answer that breaks off, as when nobody waits for it any more, is no answer: it is not told as one.
  if (response.ok) return (await response.json()) as T;
  const told = (await response.json().catch(() => ({}))) as { error?: string };
  throw new Refused(response.status, told.error ?? response.statusText);
}

export function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const told = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `/api/${path}${told ? `?${told}` : ""}`;
}

export async function ask<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return answered<T>(await fetch(address(path, query), signal ? { signal } : {}));
}

export async function tell<T>(path: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return answered<T>(await fetch(address(path), { method: "POST", headers, body: JSON.stringify(body) }));
}

/** Exchange the token in the address for a cookie, and remove it from the address. */
export async function login(hash: string): Promise<boolean> {
  const token = /^#token=([\w-]+)$/.exec(hash)?.[1];
  if (!token) return false;
  await tell("login", { token });
  return true;
}
