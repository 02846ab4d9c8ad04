/** One paragraph on what happened in a session, the answer first. */

import type { Summary } from "./api";
import { dollars, percent, short, whole } from "./format";
import { t } from "./words";

export function story(about: Summary): string[] {
  if (!about.edits) return [t("storyNothing", short(about.peak), short(about.window))];
  const told = [saving(about), t("storyPeak", short(about.untouched_peak), short(about.window), short(about.peak))];
  if (about.untouched_over) told.push(t("storyOver", whole(about.untouched_over), whole(about.calls)));
  told.push(t("storyRemoved", whole(about.edits), short(about.removed)));
  if (about.summaries) told.push(t("storySummaries", whole(about.summaries)));
  return told;
}

/** The same about the edits alone. */
export function verdict(about: Summary): string[] {
  if (!about.edits) return [];
  return [saving(about), t("editsTotal", whole(about.edits), whole(about.batches), short(about.removed))];
}

function saving(about: Summary): string {
  const share = percent(Math.abs(about.saved_share));
  if (about.saved_share < 0)
    return about.saved_usd === null ? t("storyCostTokens") : t("storyCost", dollars(-about.saved_usd));
  if (about.saved_usd === null) return t(about.played ? "storyWouldTokens" : "storySavedTokens", share);
  return t(about.played ? "storyWould" : "storySaved", dollars(about.saved_usd), share);
}
