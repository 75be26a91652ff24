// Rows for a Timeline: of a job an attempt a row, of the devices a worker a row.

import { attemptName, cell, endedAt, partitionName, phases, phaseText, story } from "./attempts.js";
import { ATTEMPT_ENDS, FRONT, get } from "./fold.js";
import { kindName } from "./format.js";
import { deviceName, orderedWorkers, workerName } from "./workers.js";

/** An attempt a row, by partition and attempt; partitions that nobody has begun share one row. */
export function jobRows(state, jobId) {
  const job = get(state, "job", jobId);
  const attempts = [...state.views.attempt].filter(([, view]) => view.job === jobId);
  attempts.sort(([, a], [, b]) => a.partition - b.partition || a.attempt_no - b.attempt_no);
  const waits = ([, view]) => view.state === "pending" && view.attempt_no === 1;
  const waiting = attempts.filter(waits);
  const rows = attempts.filter((entry) => !waits(entry)).map((entry) => attemptRow(state, job, entry));
  return waiting.length ? [...rows, waitingRow(job, waiting)] : rows;
}

function waitingRow(job, waiting) {
  const names = waiting.map(([, view]) => partitionName(view, job));
  const name = names.length === 1 ? names[0] : `+${names.length}`;
  const words = `${names.length} queued`;
  const text = () => `${names.join(", ")}: in the queue`;
  const from = Math.min(...waiting.map(([, view]) => view.times.pending / 1000));
  return {
    key: "waiting", name, title: text(), state: "pending", live: () => words, describe: text,
    bars: [{ id: "waiting", from, to: null, state: "pending", text }],
  };
}

const rowsMade = new WeakMap(); // view of the attempt -> [view of the job, row]: a view is never changed, only replaced

function attemptRow(state, job, [key, view]) {
  const made = rowsMade.get(view);
  if (made?.[0] === job) return made[1];
  const row = makeAttemptRow(state, job, key, view);
  rowsMade.set(view, [job, row]);
  return row;
}

function makeAttemptRow(state, job, key, view) {
  const name = attemptName(view, job);
  const worker = view.worker === null ? "" : ` on ${workerName(get(state, "worker", view.worker))}`;
  return {
    key, name, title: `${name}${worker}: ${view.state.replaceAll("_", " ")}`, state: view.state,
    live: (at) => cell(view, at),
    bars: phases(view).map((phase) => ({
      ...phase, id: `${key} ${phase.state}`, text: (at) => `${name}${worker}: ${phaseText(phase, at)}${error(view)}`,
    })),
    ends: ATTEMPT_ENDS.has(view.state) ? [{ at: endedAt(view), state: view.state }] : [],
    describe: (at) => story(view, at),
  };
}

function error(view) {
  return view.detail.error ? `\n${view.reason ?? "error"}: ${view.detail.error}` : "";
}

/** A worker a row: what it held, with the CPU tails that it had handed off in a lane below. */
export function workerRows(state, from) {
  const held = new Map();
  for (const [key, view] of state.views.attempt) {
    if (view.worker === null || (endedAt(view) ?? Infinity) < from) continue;
    if (!held.has(view.worker)) held.set(view.worker, []);
    held.get(view.worker).push(...workerBars(state, key, view));
  }
  return orderedWorkers(state).map(([id, view]) => ({
    key: id, name: `${workerName(view)} · ${deviceName(view)}`, title: id,
    bars: (held.get(id) ?? []).sort((a, b) => a.from - b.from),
    describe: (at) => (held.get(id) ?? []).slice(-6).map((bar) => bar.text(at)).join("; "),
  }));
}

const known = new WeakMap(); // a view is never changed, only replaced

function workerBars(state, key, view) {
  if (known.has(view)) return known.get(view);
  const claimed = (view.times.claimed ?? Infinity) / 1000;
  const job = () => get(state, "job", view.job);
  const what = () => `${kindName(job().detail.kind)} ${attemptName(view, job())} ${job().detail.request_id ?? ""}`;
  const bars = phases(view)
    .filter((phase) => phase.from >= claimed && (FRONT.has(phase.state) || phase.state === "finalizing"))
    .map((phase) => ({
      ...phase, id: `${key} ${phase.state}`, lanes: true, lane: phase.state === "finalizing" ? 1 : 0,
      name: phase.state === "device" ? attemptName(view, job()) : "",
      text: (at) => `${what()}\n${phaseText(phase, at)}${error(view)}`,
    }));
  known.set(view, bars);
  return bars;
}
