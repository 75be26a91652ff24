// A line a prover (its name, version, devices, memory, keys), and the counters of the fleet.

import { data, el, hide, keyed, setBadge, text, title } from "./dom.js";
import { gauges, get, since } from "./fold.js";
import { bytes, clock, count, duration, kindName, percent } from "./format.js";
import { setLabel } from "./label.js";
import { LEASE_MS } from "./lease.js";
import { newestSessions, proverOf } from "./retention.js";

const QUIET_MS = 6000; // three beats missed
const MOST_ANOMALIES = 10_000; // of a session that the server counts
const STUCK_MS = 15_000; // the engine's loop has not ticked, though its heartbeat beats

/** What is known of each prover at `now` (which stands while the page is stale; `clockNow` does not, and ages are by it). */
export function provers(state, live, now, stale, clockNow = now) {
  const found = new Map();
  for (const [prover, session] of [...newestSessions(state)].sort()) {
    const view = get(state, "session", session);
    const signs = live[session] ?? {};
    const heard = Math.max(signs.heartbeat_us ?? 0, since(view)) / 1000;
    const alive = view.state === "online" || view.state === "starting";
    // in a replay of a time of which no sample is kept
    const ageMs = signs.recorded === false && alive ? null : Math.max(0, clockNow - heard);
    const fresh = !stale && alive && ageMs < LEASE_MS;
    // timers of a prover that is gone stand at its last sign of life
    found.set(prover, { prover, session, view, live: signs, ageMs, fresh, alive, now: fresh ? now : Math.min(now, heard) });
  }
  return found;
}

/** The badge of a prover: [state, words]. */
function verdict(p, now, stale) {
  if (p.view.state === "lost") return ["lost", `daemon lost ${clock(now - since(p.view) / 1000)}`];
  if (p.view.state === "stopped") return ["stopped", `stopped ${clock(now - since(p.view) / 1000)}`];
  if (stale) return ["stale", "not current"];
  if (p.ageMs >= QUIET_MS) return ["stale", `no heartbeat for ${clock(p.ageMs)}`];
  const tick = p.live.tick_us;
  if (tick && now - tick / 1000 > STUCK_MS) return ["warning", `engine not responding for ${clock(now - tick / 1000)}`];
  return [p.view.state, p.view.state];
}

export class ProverLines {
  constructor(root) {
    this.root = root;
  }

  update(state, found, now, stale) {
    keyed(this.root, [...found.values()], (p) => p.session, makeLine, (line, p) => fillLine(line, state, p, now, stale));
  }
}

function makeLine(p) {
  const line = {
    badge: el("span", { class: "badge" }), name: el("span"), local: el("span", { class: "tag" }, "local keys: not for the chain"),
    watched: el("span", { class: "tag", title: "An original daemon, seen by its status alone: what that does not tell is unknown" }, "watched"),
    trouble: el("span", { class: "tag", hidden: true }),
    unrecorded: el("span", { class: "fact", hidden: true }, "gauges and signs of life: not recorded"),
    version: fact("version"), host: fact("host"), device: fact("devices"), up: fact("up"), mode: fact("mode"),
    session: el("span", { class: "label" }), memoryName: el("span", {}, "memory"), memoryWords: el("b"), fill: el("span"),
    holdings: el("div", { class: "holdings" }),
  };
  line.meter = el("div", { class: "meter", role: "meter", "aria-label": "Memory of the prover", "aria-valuemin": 0 }, line.fill);
  line.memory = el("div", { class: "prover-memory", hidden: true },
    el("div", { class: "words" }, line.memoryName, line.memoryWords), line.meter);
  setLabel(line.session, p.session);
  line.node = el("section", { class: "card prover", "aria-label": `Prover ${p.prover}` },
    el("div", { class: "prover-name" }, line.badge, line.name), line.local, line.watched, line.trouble, line.unrecorded, line.up.node, line.device.node, line.version.node,
    line.host.node, line.mode.node, el("span", { class: "fact" }, "session ", line.session), line.memory, line.holdings);
  return line;
}

function fact(name) {
  const value = el("b");
  return { node: el("span", { class: "fact" }, `${name} `, value), value };
}

function setFact({ node, value }, words) {
  hide(node, !words);
  if (words) text(value, words);
}

function fillLine(line, state, p, now, stale) {
  const { detail, times } = p.view;
  setBadge(line.badge, ...verdict(p, now, stale));
  setLabel(line.name, p.prover);
  hide(line.local, !detail.local_keys);
  hide(line.watched, !detail.source);
  setFact(line.version, detail.version);
  setFact(line.host, detail.host && `${detail.host}${detail.pid ? ` · pid ${detail.pid}` : ""}`);
  setFact(line.device, deviceWords(state, p.prover) || detail.platform);
  setFact(line.up, p.alive && !detail.source ? duration(p.now - Math.min(...Object.values(times)) / 1000) : "");
  setFact(line.mode, detail.pipeline === false ? "monolithic" : detail.split === false ? "pipeline, synchronous" : "");
  const said = p.live.gauges ?? {};
  hide(line.unrecorded, p.ageMs !== null);
  fillMemory(line, said);
  hide(line.trouble, !said.trouble || !p.fresh);
  text(line.trouble, String(said.trouble ?? ""));
  title(line.trouble, `The prover's journal; ${count(said.journal_waiting ?? 0)} records wait to be written`);
  fillHoldings(line, state, p, now);
}

function deviceWords(state, prover) {
  const mine = [...state.views.device].filter(([id]) => proverOf("device", id) === prover).map(([, view]) => view);
  const names = new Map();
  for (const view of mine) names.set(view.detail.name, (names.get(view.detail.name) ?? 0) + 1);
  if (names.size === mine.length && mine.length > 1) return `${mine.length} × ${mine[0].detail.platform ?? "device"}`;
  return [...names].map(([name, n]) => (n > 1 ? `${n} × ${name}` : name)).join(", ");
}

/** Resident memory against the limit: green up to 60 %, amber up to 85 %, red above. */
function fillMemory(line, values) {
  const used = values.rss_bytes;
  const limit = values.memory_limit_bytes ?? values.memory_total_bytes;
  hide(line.memory, !Number.isFinite(used));
  if (!Number.isFinite(used)) return;
  const share = limit > 0 ? used / limit : 0;
  hide(line.meter, !(limit > 0));
  text(line.memoryWords, limit > 0 ? `${bytes(used)} of ${bytes(limit)} (${percent(used, limit)})` : bytes(used));
  line.fill.style.width = `${Math.min(100, 100 * share)}%`;
  data(line.meter, "level", share > 0.85 ? "full" : share > 0.6 ? "high" : "");
  line.meter.setAttribute("aria-valuenow", used);
  line.meter.setAttribute("aria-valuemax", limit ?? used);
}

/** Keys and programs: those that are being loaded, made or compiled first, with a bar where it is known how far. */
function fillHoldings(line, state, p, now) {
  const mine = [...state.views.holding].filter(([id, view]) => proverOf("holding", id) === p.prover && view.state !== "evicted");
  mine.sort(([a, x], [b, y]) => isBusy(y) - isBusy(x) || (a < b ? -1 : 1));
  hide(line.holdings, !mine.length);
  keyed(line.holdings, mine, ([id]) => id, makeHolding, (part, [id, view]) => fillHolding(part, id, view, p, now));
}

const isBusy = (view) => view.state === "loading" || view.state === "compiling";

function makeHolding() {
  const part = { badge: el("span", { class: "badge" }), name: el("span", { class: "name" }), more: el("span", { class: "muted" }), fill: el("span") };
  part.meter = el("div", { class: "meter", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, hidden: true }, part.fill);
  part.node = el("div", { class: "holding" }, part.badge, part.name, part.more, part.meter);
  return part;
}

function fillHolding(part, id, view, p, now) {
  const [, sort] = id.split(":");
  const where = Number.isInteger(view.detail.device) ? ` · GPU ${view.detail.device}` : "";
  const name = `${sort === "key" ? "key" : sort === "program" ? "program" : ""} ${view.detail.name ?? id}${where}`.trim();
  setBadge(part.badge, view.state);
  setLabel(part.name, name);
  const busy = isBusy(view);
  const size = view.detail.bytes ? bytes(view.detail.bytes) : "";
  const share = busy && Number.isFinite(view.detail.progress) ? Math.min(1, Math.max(0, view.detail.progress)) : null;
  text(part.more, !busy ? size : share === null ? duration(now - since(view) / 1000) : percent(share, 1));
  title(part.node, view.detail.error ?? "");
  data(part.node, "fresh", p.fresh ? "yes" : "no");
  hide(part.meter, share === null);
  if (share === null) return;
  const whole = String(Math.round(100 * share));
  part.fill.style.width = `${100 * share}%`;
  if (part.meter.getAttribute("aria-valuenow") === whole) return;
  part.meter.setAttribute("aria-valuenow", whole);
  part.meter.setAttribute("aria-label", name);
}

const ENDS = [["done", "Done", "done"], ["failed", "Failed", "failed"], ["cancelled", "Cancelled", "off"]];

export class Counters {
  constructor(root) {
    this.root = root;
  }

  update(state, found) {
    const now = gauges(state);
    const sum = (name) => [...found.values()].reduce((n, p) => n + (p.live[name] ?? 0), 0);
    const items = ENDS.map(([end, name, hue]) => ended(state, end, name, hue));
    items.push(
      { name: "Queue", hue: "wait", value: now.queue_depth, more: `${now.open_jobs} open` },
      { name: "Synthesis", hue: "synth", value: now.synth_active, more: "at work" },
      { name: "Devices", hue: "device", value: now.gpu_active, more: `of ${state.views.worker.size} workers` },
      { name: "Finalizing", hue: "final", value: now.finalizing, more: "CPU tails" },
      { name: "Anomalies", hue: "lost", value: sum("anomalies"), more: "refused moves", most: MOST_ANOMALIES },
    );
    keyed(this.root, items, (i) => i.name, makeCounter, fillCounter);
  }
}

function ended(state, end, name, hue) {
  const kinds = [...state.ended].filter(([key]) => key.endsWith(` ${end}`)).map(([key, n]) => [key.slice(0, -end.length - 1), n]);
  const value = kinds.reduce((n, [, k]) => n + k, 0);
  const more = kinds.sort(([a], [b]) => (a < b ? -1 : 1)).map(([kind, n]) => `${kindName(kind)} ${count(n)}`).join(", ");
  return { name, hue, value, more: more || "none yet", bad: end === "failed" && value > 0 };
}

function makeCounter(item) {
  const part = { value: el("div", { class: "value" }), more: el("div", { class: "more" }), name: el("div", { class: "name" }, item.name) };
  part.node = el("div", { class: "counter" }, part.name, part.value, part.more);
  part.name.style.setProperty("--hue", `var(--${item.hue})`);
  return part;
}

function fillCounter(part, item) {
  text(part.value, item.value >= item.most ? `${count(item.most)}+` : count(item.value));
  text(part.more, item.more);
  part.node.classList.toggle("bad", Boolean(item.bad));
}
