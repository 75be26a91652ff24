// What an attempt's recorded times say: its phases as bars, and the words of its cell.

import { ATTEMPT_ENDS } from "./fold.js";
import { duration } from "./format.js";

/** The states in which an attempt is at work or waits, in their usual order, with what people call them. */
export const PHASES = {
  pending: "queue",
  reserved: "memory granted",
  synthesizing: "synthesis",
  ready: "ready",
  claimed: "prep",
  device_wait: "waiting for the device",
  device: "device",
  finalizing: "finalizing",
  finishing: "finishing",
};
const ORDER = [...Object.keys(PHASES), ...ATTEMPT_ENDS];

/** The attempt's moments as [state, milliseconds], in time order. */
export function moments(view) {
  return Object.entries(view.times)
    .map(([state, us]) => [state, us / 1000])
    .sort((a, b) => a[1] - b[1] || ORDER.indexOf(a[0]) - ORDER.indexOf(b[0]));
}

const known = new WeakMap(); // a view is never changed, only replaced

/** Its phases: {state, from, to}, `to` null while the phase lasts. */
export function phases(view) {
  if (!known.has(view)) {
    const found = moments(view);
    const all = found.map(([state, from], i) => ({ state, from, to: i + 1 < found.length ? found[i + 1][1] : null }));
    known.set(view, all.filter(({ state }) => state in PHASES));
  }
  return known.get(view);
}

/** When it ended, in milliseconds, or null. */
export function endedAt(view) {
  return ATTEMPT_ENDS.has(view.state) ? view.times[view.state] / 1000 : null;
}

/** Milliseconds in the given states so far. */
export function spent(view, states, now) {
  return phases(view).reduce((sum, p) => (states.includes(p.state) ? sum + (p.to ?? now) - p.from : sum), 0);
}

/** The text of a partition's cell; of one that is done, its synthesis and its time on the device. */
export function cell(view, now) {
  const lasting = () => duration(now - view.times[view.state] / 1000);
  switch (view.state) {
    case "pending": return "";
    case "reserved": return "waiting";
    case "synthesizing": return `${lasting()} synth`;
    case "ready": return "ready";
    case "claimed": return "prep";
    case "device_wait": return "wait";
    case "device": return `${lasting()} gpu`;
    case "finalizing": case "finishing": return `${lasting()} fin`;
    case "done":
      if ("gpu_ms" in view.detail) return `${duration(view.detail.synth_ms)}+${duration(view.detail.gpu_ms)}`; // a watched daemon says so
      return `${duration(spent(view, ["synthesizing"], now))}+${duration(spent(view, ["device"], now))}`;
    case "failed": return "FAIL";
    default: return view.state;
  }
}

/** "P12", by the partition's number on the chain (that of the request is the first). */
export function partitionName(view, job) {
  return `P${(view.partition ?? 0) + (job?.detail.partition_index ?? 0)}`;
}

/** "P12 ×2": the attempt too, when it is not the first. */
export function attemptName(view, job) {
  const name = partitionName(view, job);
  return (view.attempt_no ?? 1) > 1 ? `${name} ×${view.attempt_no}` : name;
}

/** A lasting or past phase in words, for tooltips and tables. */
export function phaseText(phase, now) {
  return `${PHASES[phase.state]} ${duration((phase.to ?? now) - phase.from)}${phase.to === null ? " so far" : ""}`;
}

/** All of an attempt's phases in one line. */
export function story(view, now) {
  const parts = phases(view).map((phase) => phaseText(phase, now));
  if (ATTEMPT_ENDS.has(view.state)) parts.push(view.state + (view.reason ? ` (${view.reason})` : ""));
  return parts.join(", ");
}

/** How many of a job's partitions have a proof (it may have come from elsewhere), and when the first was begun. */
export function progress(state, id, all) {
  const proved = new Set();
  let first = Infinity;
  for (const view of state.views.attempt.values()) {
    if (view.job !== id) continue;
    if (view.state === "done" || view.reason === "result_arrived") proved.add(view.partition);
    first = Math.min(first, (view.times.reserved ?? Infinity) / 1000);
  }
  return { done: proved.size, all, first };
}
