// What leaves the page again; the same rules as cuzk_web/live/retention.py.

import { ATTEMPT_ENDS, JOB_ENDS, SITE, since } from "./fold.js";

export const KEEP_JOBS = 32;
const KEEP_COMMANDS_US = 10 * 60 * 1e6;
const KEEP_SESSIONS_US = 24 * 3600 * 1e6;

export function forget(state, nowUs) {
  forgetJobs(state);
  forgetCommands(state, nowUs - KEEP_COMMANDS_US);
  forgetSessions(state, nowUs - KEEP_SESSIONS_US);
}

function forgetJobs(state) {
  const { attempt, job } = state.views;
  const busy = new Set();
  for (const view of attempt.values()) if (!ATTEMPT_ENDS.has(view.state)) busy.add(view.job);
  const ended = [...job].filter(([, view]) => JOB_ENDS.has(view.state)).map(([key, view]) => [since(view), key]);
  ended.sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1));
  for (const [, key] of ended.slice(0, -KEEP_JOBS)) if (!busy.has(key)) job.delete(key);
  for (const [key, view] of attempt) {
    if (job.has(view.job) || busy.has(view.job)) continue;
    attempt.delete(key);
    state.latest.delete(`${view.job}:${view.partition}`);
  }
}

function forgetCommands(state, beforeUs) {
  for (const [key, view] of state.views.command) {
    if ((view.state === "done" || view.state === "refused") && since(view) < beforeUs) state.views.command.delete(key);
  }
}

function forgetSessions(state, beforeUs) {
  const { session, device, worker, holding, admin } = state.views;
  const newest = newestSessions(state);
  for (const [key, view] of session) {
    const over = (view.state === "stopped" || view.state === "lost") && since(view) < beforeUs;
    if (over || ![...newest.values()].includes(key)) session.delete(key);
  }
  for (const key of [...state.heads.keys()]) if (key !== SITE && !session.has(key)) state.heads.delete(key);
  const starts = new Map();
  for (const [prover, key] of newest) if (session.has(key)) starts.set(prover, start(session.get(key)));
  for (const [entity, views] of Object.entries({ device, worker, holding })) {
    for (const [key, view] of views) {
      const from = starts.get(proverOf(entity, key));
      if (from === undefined || since(view) < from) views.delete(key);
    }
  }
  for (const key of [...admin.keys()]) if (!worker.has(key)) admin.delete(key);
}

const start = (view) => Math.min(...Object.values(view.times));

/** prover -> its session that started last. */
export function newestSessions(state) {
  const newest = new Map();
  for (const [key, view] of state.views.session) {
    if (key === SITE) continue;
    const prover = String(view.detail.prover ?? key);
    const best = newest.get(prover);
    const at = start(view);
    if (!best || at > best[0] || (at === best[0] && key > best[1])) newest.set(prover, [at, key]);
  }
  return new Map([...newest].map(([prover, [, key]]) => [prover, key]));
}

/** The prover that a device, a worker (PROVER/..) or a holding (PROVER:..) belongs to. */
export function proverOf(entity, id) {
  if (entity === "holding") return id.split(":", 1)[0];
  return id.split("/").slice(0, entity === "device" ? -1 : -2).join("/");
}
