/** Formats numbers, times and paths. */

export function short(n: number): string {
  if (n < 0) return `−${short(-n)}`;
  if (n < 1000) return String(Math.round(n));
  if (n < 999_950) return `${trimmed(n / 1000)}k`;
  return `${trimmed(n / 1_000_000)}M`;
}

function trimmed(n: number): string {
  return n.toFixed(1).replace(/\.0$/, "");
}

export function whole(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}

export function dollars(n: number | null): string {
  if (n === null) return "–";
  const size = Math.abs(n);
  const sign = n < 0 ? "−" : "";
  if (size === 0) return "$0";
  const digits = size >= 0.1 ? 2 : size >= 0.001 ? 4 : 5;
  return `${sign}$${size.toFixed(digits)}`;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
}

const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Write out characters that hide or reverse text: models read them, so the user should see them. */
export function seen(text: string): string {
  return text.replace(UNSEEN, (one) => {
    const code = (one.codePointAt(0) ?? 0).toString(16);
    return code.length <= 2
      ? `\\x${code.padStart(2, "0")}`
      : code.length <= 4
        ? `\\u${code.padStart(4, "0")}`
        : `\\u{${code}}`;
  });
}

/** The end of a path, which tells one file from another. */
export function ending(path: string): string {
  const parts = path.split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : path;
}

/** Format seconds since the epoch in local time; empty if the recording has no times. */
export function moment(at: number): string {
  if (at < 1e6) return "";
  const when = new Date(at * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${day} ${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
}

/** A length of time in its largest unit: nobody reads 79598 s. */
export function lasting(seconds: number): string {
  if (seconds < 600) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function ago(iso: string, now: number = Date.now()): { n: number; unit: "s" | "m" | "h" | "d" } {
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1000);
  if (seconds < 60) return { n: Math.round(seconds), unit: "s" };
  if (seconds < 3600) return { n: Math.round(seconds / 60), unit: "m" };
  if (seconds < 86_400) return { n: Math.round(seconds / 3600), unit: "h" };
  return { n: Math.round(seconds / 86_400), unit: "d" };
}
