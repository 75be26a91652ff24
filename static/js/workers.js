// A card a worker. What it reads is derived from the attempts that the worker holds; a card that has no current data is
// grey and its timers stand still.

import { attemptName, cell, endedAt, phases, PHASES, story } from "./attempts.js";
import { fillActions, makeActions } from "./commands.js";
import { data, el, hide, keyed, setBadge, text, title } from "./dom.js";
import { activity, admin, ATTEMPT_ENDS, busySince, finalizing, front, get, since } from "./fold.js";
import { clock, duration, kindName } from "./format.js";
import { setLabel } from "./label.js";
import { proverOf } from "./retention.js";

const PHASE_WORD = { claimed: "prep", device_wait: "waiting device", device: "device" };
const SEEN_WORD = { claimed: "on the GPU" }; // of a watched daemon, which tells no finer phase
const PHASE_INK = {
  synthesizing: "synth", ready: "ready", claimed: "dwait", device_wait: "dwait", device: "device", finishing: "final",
};

/** Workers in the order of (prover, gpu, worker). */
export function orderedWorkers(state) {
  const keyed = [...state.views.worker].map((entry) => [proverOf("worker", entry[0]), entry[1].detail, entry]);
  const number = (detail, name) => detail[name] ?? 0;
  keyed.sort(([p, a], [q, b]) => (p < q ? -1 : p > q ? 1
    : number(a, "ordinal") - number(b, "ordinal") || number(a, "sub") - number(b, "sub")));
  return keyed.map(([, , entry]) => entry);
}

/** worker -> its attempts that ended, newest first, at most three. */
export function lastAttempts(state) {
  const found = new Map();
  for (const entry of state.views.attempt) {
    const view = entry[1];
    if (view.worker === null || !ATTEMPT_ENDS.has(view.state)) continue;
    if (!found.has(view.worker)) found.set(view.worker, []);
    found.get(view.worker).push(entry);
  }
  for (const list of found.values()) list.sort((a, b) => endedAt(b[1]) - endedAt(a[1])).splice(3);
  return found;
}

export function workerName(view) {
  return `W${view.detail.display ?? "?"}`;
}

/** The device of a worker; of a watched daemon it may not be known. */
export function deviceName(view) {
  const { ordinal } = view.detail;
  return `GPU ${ordinal >= 0 ? ordinal : "unknown"}`;
}

export class WorkerCards {
  constructor(root) {
    this.root = root;
    this.last = new Map();
  }

  /** Bring the cards up to date; `prover(id)` tells of a worker's prover {fresh, ageMs}. */
  update(state, now, prover) {
    this.last = lastAttempts(state);
    const several = new Set([...state.views.worker.keys()].map((id) => proverOf("worker", id))).size > 1;
    keyed(this.root, orderedWorkers(state), ([id]) => id, ([id]) => makeCard(id), (card, [id, view]) => {
      card.place = `${deviceName(view)}${several ? ` · ${proverOf("worker", id)}` : ""}`;
      this.#fill(card, state, id, view);
      tickCard(card, state, now, prover(id));
    });
  }

  /** Only what moves with time. */
  tick(state, now, prover) {
    for (const [id, card] of this.root.parts ?? []) tickCard(card, state, now, prover(id));
  }

  #fill(card, state, id, view) {
    const doing = activity(state, id);
    const wish = admin(state, id);
    data(card.node, "state", doing);
    data(card.node, "worker", id);
    text(card.name, workerName(view));
    text(card.gpu, card.place);
    setBadge(card.badge, doing);
    card.frontKey = front(state, id);
    card.tails = finalizing(state, id);
    this.#fillFront(card, state, doing);
    this.#fillLast(card, state, this.last.get(id) ?? []);
    const said = get(state, "admin", id);
    text(card.admin, wish === "enabled" ? "" : wish + (wish === "draining" && doing !== "drained" ? " (finishes what it has)" : ""));
    title(card.admin, said.detail.by ? `by ${said.detail.by}` : "");
    hide(card.admin, wish === "enabled" || wish === doing);
    fillActions(card.actions, state, id, workerName(view), wish, doing);
  }

  #fillFront(card, state, doing) {
    const view = card.frontKey === null ? null : get(state, "attempt", card.frontKey);
    const job = view && get(state, "job", view.job);
    hide(card.line, !view);
    hide(card.label, !view);
    hide(card.bar, !view);
    hide(card.nothing, Boolean(view));
    if (!view) {
      text(card.nothing, IDLE_WORDS[doing] ?? "");
      return;
    }
    text(card.kind, kindName(job.detail.kind));
    text(card.partition, attemptName(view, job));
    const seen = job.detail.source ? SEEN_WORD[view.state] : undefined;
    text(card.phase, seen ?? PHASE_WORD[view.state] ?? PHASES[view.state] ?? view.state);
    data(card.phase, "phase", PHASE_INK[view.state] ?? "");
    card.phase.style.setProperty("--phase", `var(--${PHASE_INK[view.state] ?? "wait"}-ink)`);
    setLabel(card.label, String(job.detail.request_id ?? view.job));
  }

  #fillLast(card, state, last) {
    const places = last.map(([, view], place) => [place, view]); // a chip a place: its words change, not the elements
    keyed(card.last, places, ([place]) => place, () => ({ node: el("span") }), ({ node }, [, view]) => {
      const job = get(state, "job", view.job);
      data(node, "state", view.state);
      const seen = endedAt(view) - (view.times.claimed ?? view.times.pending) / 1000;
      const took = job.detail.source ? view.detail.gpu_ms ?? null : seen; // a watched daemon measures better than who looks
      text(node, `${attemptName(view, job)} ${duration(took)}`);
      title(node, `${kindName(job.detail.kind)} ${job.detail.request_id ?? ""}: ${story(view, endedAt(view))}`);
    });
  }
}

const IDLE_WORDS = {
  idle: "Nothing to do",
  finalizing: "Free: only CPU tails run",
  paused: "Claims nothing while paused",
  drained: "Drained: holds nothing",
  disabled: "Disabled",
  quarantined: "Quarantined after failures",
  lost: "Its prover was lost",
  stopped: "Stopped",
};

function makeCard(id) {
  const card = {
    name: el("span", { class: "name" }), gpu: el("span", { class: "gpu" }), badge: el("span", { class: "badge" }),
    kind: el("span", { class: "kind" }), partition: el("span", { class: "partition" }),
    phase: el("span", { class: "phase" }), timer: el("span", { class: "timer", "aria-hidden": true }),
    label: el("span", { class: "label" }), bar: el("div", { class: "phases", "aria-hidden": true }),
    nothing: el("div", { class: "nothing" }), tail: el("div", { class: "worker-tail", hidden: true }),
    last: el("span", { class: "last" }), admin: el("span", { class: "tag", hidden: true }), age: el("span", { class: "age" }),
  };
  card.actions = makeActions(id);
  card.line = el("div", { class: "worker-line" }, card.kind, card.partition, card.phase, card.timer);
  card.node = el("article", { class: "card worker", title: id },
    el("div", { class: "worker-head" }, card.name, card.gpu, card.badge),
    el("div", { class: "worker-front" }, card.line, card.label, card.bar, card.nothing, card.tail),
    el("div", { class: "worker-foot" }, card.last, card.admin, card.age),
    card.actions.node);
  return card;
}

function tickCard(card, state, now, prover) {
  data(card.node, "fresh", prover.fresh ? "yes" : "no");
  text(card.age, prover.ageMs === null ? "data age not recorded" : `data ${prover.ageMs < 60_000 ? `${Math.floor(prover.ageMs / 1000)} s` : clock(prover.ageMs)}`);
  title(card.age, "Age of the last sign of life of this worker's prover");
  const at = prover.now ?? now;
  const view = card.frontKey === null ? null : state.views.attempt.get(card.frontKey);
  if (view) {
    text(card.timer, duration(at - since(view) / 1000));
    const busy = busySince(state, view.worker);
    title(card.timer, busy === null ? "" : `claimed ${duration(at - busy / 1000)} ago`);
    drawPhases(card.bar, view, at);
  }
  const oldest = card.tails.length ? state.views.attempt.get(card.tails[0]) : null;
  hide(card.tail, !oldest);
  if (oldest) {
    const more = card.tails.length > 1 ? ` (+${card.tails.length - 1})` : "";
    const job = get(state, "job", oldest.job);
    text(card.tail, `finalizing: ${attemptName(oldest, job)} ${duration(at - since(oldest) / 1000)}${more}`);
    title(card.tail, card.tails.map((key) => `${attemptName(state.views.attempt.get(key), job)} ${cell(state.views.attempt.get(key), at)}`).join(", "));
  }
}

/** The share of each phase since the claim, as one gradient: nothing is laid out when it moves. */
function drawPhases(bar, view, now) {
  const claimed = (view.times.claimed ?? 0) / 1000;
  const whole = Math.max(1, now - claimed);
  const share = (at) => `${Math.min(100, Math.max(0, (100 * (at - claimed)) / whole)).toFixed(1)}%`;
  const stops = phases(view)
    .filter((phase) => phase.from >= claimed)
    .map((phase) => `var(--${PHASE_INK[phase.state] ?? "wait"}) ${share(phase.from)} ${share(phase.to ?? now)}`);
  const painted = stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "";
  if (bar.painted === painted) return;
  bar.painted = painted;
  bar.style.backgroundImage = painted;
}
