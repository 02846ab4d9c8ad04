/** The frame of the page: navigation, theme, language, and the keys that work everywhere. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Home } from "./home";
import { useKept, useKeys } from "./hooks";
import { SCROLLER } from "./list";
import { format, HOME, type Place, parse } from "./route";
import { SessionPage } from "./session";
import { speak, t, type Word } from "./words";

export type Go = (change: Partial<Place>, replace?: boolean) => void;

export function App() {
  const [place, setPlace] = useState(() => parse(location.hash));
  const [theme, setTheme] = useKept("theme", matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  const [tongue, setTongue] = useKept("language", navigator.language.startsWith("zh") ? "zh" : "en");
  const [help, setHelp] = useState(false);
  speak(tongue === "zh" ? "zh" : "en");
  document.documentElement.dataset.theme = theme;
  document.documentElement.lang = tongue;

  useEffect(() => {
    const moved = () => setPlace(parse(location.hash));
    window.addEventListener("hashchange", moved);
    return () => window.removeEventListener("hashchange", moved);
  }, []);

  const go: Go = (change, replace = false) => {
    const next = { ...place, ...change };
    if (replace) history.replaceState(null, "", format(next));
    else location.hash = format(next);
    setPlace(next);
  };
  const leave = () => {
    if (help) setHelp(false);
    else if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
    else if (place.key) go(HOME);
  };
  const dark = () => setTheme(theme === "dark" ? "light" : "dark");
  useKeys({
    "?": () => setHelp(!help),
    Escape: leave,
    d: dark,
    "/": () => {
      if (place.key) go({ tab: "recall" });
      requestAnimationFrame(() => document.querySelector<HTMLInputElement>("input[type=search]")?.focus());
    },
  });

  return (
    <>
      <header class="top">
        <a class="brand" href="#/" aria-label={t("back")}>
          <svg viewBox="0 0 32 20" width="30" height="19" aria-hidden="true">
            <path d="M2 7c4.7-5.6 9.3-5.6 14 0s9.3 5.6 14 0M2 15c4.7-5.6 9.3-5.6 14 0s9.3 5.6 14 0" />
          </svg>
          <span>ebbtide</span>
        </a>
        <span class="motto">{t("title")}</span>
        <span class="grow" />
        <button type="button" class="quiet" onClick={() => setTongue(tongue === "zh" ? "en" : "zh")}>
          {t("language")}
        </button>
        <button type="button" class="quiet" title={`${t("theme")} (d)`} aria-label={t("theme")} onClick={dark}>
          {theme === "dark" ? "☾" : "☀"}
        </button>
        <button
          type="button"
          class="quiet"
          title={`${t("keys")} (?)`}
          aria-label={t("keys")}
          onClick={() => setHelp(true)}
        >
          ?
        </button>
      </header>
      <main id={SCROLLER}>
        {place.key ? (
          <SessionPage key={place.key} place={place} go={go} theme={theme} />
        ) : (
          <Home place={place} go={go} />
        )}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

const KEYS: [string, Word][] = [
  ["↑ ↓ / k j", "keyMove"],
  ["Enter", "keyOpen"],
  ["← →", "keyCall"],
  ["1 – 6", "keyTabs"],
  ["/", "keySearch"],
  ["Esc", "keyBack"],
  ["f", "keyFollow"],
  ["d", "keyTheme"],
  ["?", "keyHelp"],
];

function Help({ onClose }: { onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  // As a modal the browser keeps the focus in it, and gives it back afterwards.
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog class="card help" aria-label={t("keys")} ref={box} onClose={onClose}>
      <h2>{t("keys")}</h2>
      <dl>
        {KEYS.map(([keys, word]) => (
          <>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{t(word)}</dd>
          </>
        ))}
      </dl>
      <button type="button" onClick={onClose}>
        {t("close")}
      </button>
    </dialog>
  );
}
