/** What a reader can do with a placeholder: copy the original, see why it was removed, and put it back. */

import { useState } from "preact/hooks";
import { ask, type EditFacts, type Opened, tell } from "./api";
import type { Go } from "./app";
import { seen, whole } from "./format";
import { worded } from "./hooks";
import { type Source, Trouble } from "./item";
import { t } from "./words";

export interface Desk {
  source: Source;
  about: Opened;
  /** Whether the server allows undo. */
  may: boolean;
  changed: () => void;
  go: Go;
}

interface Props {
  desk: Desk;
  at: number;
  edit: EditFacts & { batch: string; batch_edits: number; call: number };
  /** Leave out "why" where the reason is already shown. */
  hasReason?: boolean;
}

interface Original {
  text: string;
  masked: number;
  complete: boolean;
}

export function PlaceholderActions({ desk, at, edit, hasReason = false }: Props) {
  const [said, setSaid] = useState("");
  const [error, setError] = useState("");
  const [asked, setAsked] = useState(false);
  const { source } = desk;
  const fail = (failed: unknown) => setError(worded(failed));
  const copy = () => {
    ask<Original>(`session/${source.key}/original`, { ...source.query, at: at || undefined, edit: edit.id })
      .then(async (found) => {
        await toClipboard(found.text);
        setSaid(
          !found.complete
            ? t("copyCut", whole(found.text.length))
            : found.masked
              ? t("copyMasked", found.masked)
              : t("copied"),
        );
      })
      .catch(fail);
  };
  return (
    <div class="actions">
      <button type="button" onClick={copy}>
        {t("copy")}
      </button>
      {!hasReason && (
        <button type="button" onClick={() => desk.go({ tab: "edits", at: edit.call, edit: edit.id })}>
          {t("why")}
        </button>
      )}
      <button type="button" aria-expanded={asked} onClick={() => setAsked(!asked)}>
        {t("putBack")}
      </button>
      {said && (
        <span class="faint" role="status">
          {said}
        </span>
      )}
      {error && <Trouble error={error} />}
      {asked && <PutBack desk={desk} edit={edit} onFail={fail} onDone={() => setSaid(t("isBack"))} />}
    </div>
  );
}

interface PutBackProps {
  desk: Desk;
  edit: Props["edit"];
  onFail: (failed: unknown) => void;
  onDone: () => void;
}

/** Undo the batch here if the server allows it; else the command that does it. */
function PutBack({ desk, edit, onFail, onDone }: PutBackProps) {
  const { about, source } = desk;
  if (about.played) {
    return (
      <div class="putback">
        <p>{t("putBackPlayed")}</p>
        <Command text={about.commands.show.replace("ITEM", edit.first)} />
      </div>
    );
  }
  const undo = () => {
    tell(`session/${source.key}/undo`, { batch: edit.batch })
      .then(() => {
        onDone();
        desk.changed();
      })
      .catch(onFail);
  };
  return (
    <div class="putback">
      <p>{t("putBackAll", edit.batch_edits, edit.call)}</p>
      {desk.may ? (
        <button type="button" class="main" onClick={undo}>
          {t("putBackNow")}
        </button>
      ) : (
        <>
          <p class="faint">{t("putBackCommand")}</p>
          <Command text={about.commands.undo.replace("BATCH", edit.batch)} />
        </>
      )}
    </div>
  );
}

/** A command for a terminal, and a button that copies it. */
function Command({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  return (
    <p class="command">
      <code>{seen(text)}</code>
      <button type="button" onClick={() => void toClipboard(text).then(() => setSaid(t("copied")))}>
        {said || t("copy")}
      </button>
    </p>
  );
}

async function toClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // The browser does not let us, as in an old one: select it in a field and copy that.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    if (!copied) throw new Error("the browser does not allow copying");
  }
}
