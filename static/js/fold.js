// The fold: the same as prover/states/fold.py and model.py, so that the page shows what the log says and nothing else.
// A state is {views: {entity: Map(id -> view)}, heads, held, latest, ended}, each a Map; a view is a plain object with
// the fields of states.View. Tests run the same traces through both.

export const ENTITIES = ["session", "device", "worker", "admin", "holding", "job", "attempt", "command"];
export const ATTEMPT_ENDS = new Set(["done", "failed", "cancelled", "skipped", "lost"]);
export const JOB_ENDS = new Set(["done", "failed", "cancelled"]);
export const FRONT = new Set(["claimed", "synthesizing", "ready", "device_wait", "device", "finishing"]);
export const SITE = "00000000-0000-0000-0000-000000000000";

const NO_ENDS = new Set();
const ENDS = { attempt: ATTEMPT_ENDS, job: JOB_ENDS };
const EMPTY = Object.freeze({
  state: "", times: Object.freeze({}), detail: Object.freeze({}), reason: null, session: null, seq: 0,
  job: null, partition: null, attempt_no: null, worker: null,
});

export function emptyState() {
  const views = Object.fromEntries(ENTITIES.map((entity) => [entity, new Map()]));
  return { views, heads: new Map(), held: new Map(), latest: new Map(), ended: new Map() };
}

/** A state from the JSON of FleetState.to_json; what is derived is derived again. */
export function fromJson(value) {
  const state = emptyState();
  for (const entity of ENTITIES) state.views[entity] = new Map(Object.entries(value.views[entity] ?? {}));
  state.heads = new Map(Object.entries(value.heads));
  state.ended = new Map(Object.entries(value.ended));
  for (const [key, view] of state.views.attempt) index(state, key, view);
  return state;
}

/** The same JSON again (for tests, and to copy a state). */
export function toJson(state) {
  return {
    views: Object.fromEntries(ENTITIES.map((entity) => [entity, Object.fromEntries(state.views[entity])])),
    heads: Object.fromEntries(state.heads),
    ended: Object.fromEntries(state.ended),
  };
}

/** A row of the socket as an object. */
export function transition(row) {
  const [session, seq, at_us, , entity, entity_id, old, next, job, partition, attempt_no, worker, reason, detail] = row;
  return { session, seq, at_us, entity, entity_id, old, new: next, job, partition, attempt_no, worker, reason, detail };
}

export function get(state, entity, id) {
  return state.views[entity].get(id) ?? EMPTY;
}

/** When the present state was entered, in microseconds. */
export const since = (view) => view.times[view.state] ?? 0;

/** When the last transition was, whether or not it led to another state. */
const lastMoved = (view) => Math.max(0, ...Object.values(view.times));

/** What the time of a transition is kept as: a job that is noted stays in its state. */
const entered = (t) => (t.entity === "job" && t.old === t.new ? "noted" : t.new);

/** Bring `state` up to date with one transition, in place. */
export function apply(state, t) {
  state.heads.set(t.session, Math.max(t.seq, state.heads.get(t.session) ?? 0));
  const old = get(state, t.entity, t.entity_id);
  const ends = ENDS[t.entity] ?? NO_ENDS;
  if (ends.has(old.state) && ends.has(t.new)) return; // terminal is terminal
  const view = ends.has(old.state) || isOlder(old, t) ? overtakenBy(old, t) : moved(old, t);
  state.views[t.entity].set(t.entity_id, view);
  if (t.entity === "attempt") {
    index(state, t.entity_id, view);
  } else if (t.entity === "job" && ends.has(t.new)) {
    const key = `${view.detail.kind ?? "unknown"} ${t.new}`;
    state.ended.set(key, (state.ended.get(key) ?? 0) + 1);
  }
}

/** Apply the rows that are new; returns the newest time among them, or null. A gap (a missing row) is an error. */
export function feed(state, rows) {
  let newest = null;
  for (const row of rows) {
    const head = state.heads.get(row[0]) ?? 0;
    if (row[1] <= head) continue;
    if (row[1] !== head + 1) throw new Gap(row[0], head, row[1]);
    apply(state, transition(row));
    newest = Math.max(newest ?? 0, row[2]);
  }
  return newest;
}

export class Gap extends Error {
  constructor(session, head, seq) {
    super(`session ${session} goes from ${head} to ${seq}`);
  }
}

function isOlder(old, t) {
  if (old.session === null) return false;
  if (old.session === t.session) return t.seq <= old.seq;
  const last = lastMoved(old);
  return t.at_us < last || (t.at_us === last && t.session < old.session);
}

function moved(old, t) {
  return {
    state: t.new, times: { ...old.times, [entered(t)]: t.at_us }, detail: { ...old.detail, ...t.detail },
    reason: t.reason, session: t.session, seq: t.seq, job: t.job ?? old.job, partition: t.partition ?? old.partition,
    attempt_no: t.attempt_no ?? old.attempt_no, worker: t.worker ?? old.worker,
  };
}

function overtakenBy(old, t) {
  const name = entered(t);
  return {
    ...old, times: { ...old.times, [name]: Math.max(t.at_us, old.times[name] ?? 0) },
    detail: { ...t.detail, ...old.detail }, job: old.job ?? t.job, partition: old.partition ?? t.partition,
    attempt_no: old.attempt_no ?? t.attempt_no, worker: old.worker ?? t.worker,
  };
}

function index(state, key, view) {
  const cell = `${view.job}:${view.partition}`;
  state.latest.set(cell, Math.max(view.attempt_no ?? 0, state.latest.get(cell) ?? 0));
  if (view.worker === null) return;
  if (!state.held.has(view.worker)) state.held.set(view.worker, new Set());
  if (ATTEMPT_ENDS.has(view.state)) state.held.get(view.worker).delete(key);
  else state.held.get(view.worker).add(key);
}

// -- what is derived, never stored ------------------------------------------------------------------------------------

/** The attempt that a worker is doing now, or null. */
export function front(state, worker) {
  let best = null;
  for (const key of state.held.get(worker) ?? []) {
    const view = get(state, "attempt", key);
    if (!FRONT.has(view.state)) continue;
    const claimed = view.times.claimed ?? 0;
    if (best === null || claimed > best.claimed || (claimed === best.claimed && key > best.key)) best = { claimed, key };
  }
  return best && best.key;
}

/** The attempts whose CPU tail runs while the worker is free, oldest first. */
export function finalizing(state, worker) {
  const tails = [...(state.held.get(worker) ?? [])].filter((key) => get(state, "attempt", key).state === "finalizing");
  const at = (key) => since(get(state, "attempt", key));
  return tails.sort((a, b) => at(a) - at(b) || (a < b ? -1 : 1));
}

export function busySince(state, worker) {
  const key = front(state, worker);
  return key === null ? null : get(state, "attempt", key).times.claimed ?? null;
}

export function admin(state, worker) {
  return get(state, "admin", worker).state || "enabled";
}

const ADMIN_ACTIVITY = { quarantined: "quarantined", disabled: "disabled", paused: "paused", draining: "drained" };

/** What a card reads. */
export function activity(state, worker) {
  const lifecycle = get(state, "worker", worker).state;
  if (lifecycle === "lost") return "lost";
  if (lifecycle !== "online") return "stopped";
  if (front(state, worker) !== null) return "proving";
  if (finalizing(state, worker).length) return "finalizing";
  return ADMIN_ACTIVITY[admin(state, worker)] ?? "idle";
}

export function gauges(state) {
  const found = { synth_active: 0, gpu_active: 0, finalizing: 0, queue_depth: 0, open_jobs: 0, open_attempts: 0 };
  for (const view of state.views.attempt.values()) {
    found.synth_active += view.state === "synthesizing";
    found.finalizing += view.state === "finalizing";
    found.open_attempts += !ATTEMPT_ENDS.has(view.state);
  }
  for (const view of state.views.job.values()) {
    found.queue_depth += view.state === "queued";
    found.open_jobs += !JOB_ENDS.has(view.state);
  }
  for (const worker of state.held.keys()) found.gpu_active += front(state, worker) !== null;
  return found;
}
