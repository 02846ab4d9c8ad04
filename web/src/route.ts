/** The current view as the fragment of the address: `#/`, or `#/s/<key>/<tab>?at=12`. */

export const TABS = ["request", "edits", "cache", "ledger", "recall", "compare"] as const;
export type Tab = (typeof TABS)[number];

export interface Place {
  /** Of the session; empty for the list. */
  key: string;
  tab: Tab;
  /** The call; 0 for the newest. */
  at: number;
  query: string;
  policy: string;
  window: number;
  /** The edit to show. */
  edit: string;
}

export const HOME: Place = { key: "", tab: "request", at: 0, query: "", policy: "", window: 0, edit: "" };

export function parse(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  const [, section, key = "", tab = ""] = path.split("/");
  const given = new URLSearchParams(search);
  const query = given.get("q") ?? "";
  if (section !== "s" || !/^[0-9a-f]+$/.test(key)) return { ...HOME, query };
  return {
    key,
    tab: TABS.find((one) => one === tab) ?? "request",
    at: whole(given.get("at")),
    query,
    policy: given.get("policy") ?? "",
    window: whole(given.get("window")),
    edit: given.get("edit") ?? "",
  };
}

export function format(place: Place): string {
  const given = new URLSearchParams();
  if (place.key && place.at) given.set("at", String(place.at));
  if (place.query) given.set("q", place.query);
  if (place.policy) given.set("policy", place.policy);
  if (place.window) given.set("window", String(place.window));
  if (place.key && place.edit) given.set("edit", place.edit);
  const search = given.toString();
  const path = place.key ? `#/s/${place.key}/${place.tab}` : "#/";
  return search ? `${path}?${search}` : path;
}

function whole(text: string | null): number {
  return text && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}
