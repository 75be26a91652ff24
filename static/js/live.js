// The live page: one fold, drawn when it changes, and timers that run on the database's time while the data is current.

import { workerRows } from "./bars.js";
import { Connection } from "./connection.js";
import { data, el, hide, setBadge, text } from "./dom.js";
import { activity, front, SITE } from "./fold.js";
import { clock, count, duration, moment, zoneName } from "./format.js";
import { JobCards } from "./jobs.js";
import { PHASES } from "./attempts.js";
import { swatch } from "./paint.js";
import { Counters, ProverLines, provers } from "./provers.js";
import { forget, KEEP_JOBS, proverOf } from "./retention.js";
import { settings } from "./shell.js";
import { Timeline } from "./timeline.js";
import { WorkerCards } from "./workers.js";

const TICK_MS = 200; // of timers; what happens is drawn as it comes
const DRAW_MS = [16, 100]; // between drawings, at least and at most
const DRAW_SHARE = 2.5; // by how long the last took: a slow browser draws more at a time, and is never behind
const DESCRIBE_MS = 2000; // how often the tables for screen readers follow
const AGED_MS = 4000; // data older than this is called stale, by its age
const LAGS = 50;

const $ = (id) => document.getElementById(id);
const root = $("live");

export class Page {
  lags = [];
  dirty = true;
  minutes = 1;
  describedAt = 0;
  forgottenAt = 0;
  tickedAt = 0;
  asked = 0; // the timer that will draw
  drawAfter = 0; // not before
  newest = null; // time of the newest transition that is not drawn yet
  stoppedAt = null; // the database's time at which timers stand still

  /** `connection` is a Connection, or what has its fold, its clock and its events (replay.js). */
  constructor(connection) {
    this.connection = connection;
    this.provers = new ProverLines($("provers"));
    this.counters = new Counters($("counters"));
    this.workers = new WorkerCards($("workers"));
    this.jobs = new JobCards($("jobs"), $("recent"), root.dataset.job);
    this.gantt = new Timeline($("gantt"), { label: "What each worker did over time", rowHeight: 30 });
    this.#listen();
    const embedded = $("snapshot");
    this.connection.start(embedded ? JSON.parse(embedded.textContent) : null);
    setInterval(() => performance.now() - this.tickedAt < TICK_MS / 2 || this.tick(), TICK_MS);
  }

  #listen() {
    this.connection.addEventListener("state", ({ detail }) => this.changed(detail.newest));
    this.connection.addEventListener("status", () => this.tick());
    document.addEventListener("themechange", () => this.themeChanged());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.themeChanged());
    document.addEventListener("zonechange", () => { this.dirty = true; });
    document.addEventListener("visibilitychange", () => { this.dirty = true; });
    root.querySelector(".segments").addEventListener("click", ({ target }) => this.#choose(target));
    $("legend").append(...["synthesizing", "ready", "claimed", "device_wait", "device", "finalizing"].map((state) =>
      el("span", {}, swatch(state), PHASES[state])));
  }

  #choose(button) {
    if (!button.dataset.minutes) return;
    this.minutes = Number(button.dataset.minutes);
    for (const other of button.parentNode.children) other.setAttribute("aria-pressed", String(other === button));
    this.dirty = true;
  }

  themeChanged() {
    this.gantt.themeChanged();
    this.jobs.themeChanged();
  }

  /**
   * The fold has moved (or, without rows, only the gauges have). Hidden pages keep it, and draw nothing. It is drawn at
   * once, not in the next animation frame: the work is done by then, and that frame shows it.
   */
  changed(newest) {
    this.dirty = true;
    this.newest = newest === null ? this.newest : newest;
    if (document.hidden || this.asked) return;
    const wait = this.drawAfter - performance.now();
    if (wait <= 0) this.show();
    else this.asked = setTimeout(() => { this.asked = 0; this.show(); }, wait);
  }

  show() {
    const start = performance.now();
    this.tick();
    const [least, most] = DRAW_MS;
    this.drawAfter = start + Math.min(most, Math.max(least, DRAW_SHARE * (performance.now() - start)));
    const drawn = this.newest;
    this.newest = null;
    if (drawn !== null) requestAnimationFrame(() => setTimeout(() => this.measure(drawn))); // after the paint
  }

  measure(newestUs) {
    const lag = this.connection.clock.now() - newestUs / 1000;
    if (lag > 10_000) return; // rows of the past: catching up
    this.lags.push(Math.max(0, lag));
    if (this.lags.length > LAGS) this.lags.shift();
  }

  /** The database's time for timers: it stands still while the data is stale. */
  now() {
    if (!this.connection.stale) this.stoppedAt = null;
    else this.stoppedAt ??= this.connection.clock.readUs / 1000;
    return this.stoppedAt ?? this.connection.clock.now();
  }

  tick() {
    this.tickedAt = performance.now();
    const { state } = this.connection;
    if (document.hidden || state === null) return;
    const now = this.now();
    const stale = this.connection.stale;
    root.classList.toggle("stale", stale);
    const found = provers(state, this.connection.live, now, stale, this.connection.clock.now());
    const prover = (worker) => found.get(proverOf("worker", worker)) ?? { fresh: false, ageMs: null };
    if (this.dirty) this.#draw(state, found, prover, now);
    else this.#move(state, prover, now);
    this.provers.update(state, found, this.connection.clock.now(), stale);
    this.#status(state, found);
    this.#alarms();
    this.#favicon(state, found, stale);
    if (performance.now() - this.describedAt > DESCRIBE_MS) this.#describe(now);
  }

  #draw(state, found, prover, now) {
    this.dirty = false;
    if (performance.now() - this.forgottenAt > 2000 || state.views.job.size > 4 * KEEP_JOBS) {
      this.forgottenAt = performance.now();
      forget(state, now * 1000);
    }
    this.counters.update(state, found);
    this.workers.update(state, now, prover);
    const shown = this.jobs.update(state, now);
    this.#gantt(state, now);
    hide($("no-workers"), state.views.worker.size > 0);
    hide($("no-jobs"), shown > 0);
    hide($("gantt-card"), state.views.worker.size === 0);
    hide($("recent-card"), $("recent").childElementCount === 0);
  }

  #move(state, prover, now) {
    this.workers.tick(state, now, prover);
    this.jobs.tick(state, now);
    this.#gantt(state, now);
  }

  #gantt(state, now) {
    const from = now - this.minutes * 60_000;
    this.gantt.set(workerRows(state, from), from, now, now);
    this.gantt.draw(now);
  }

  #describe(now) {
    this.describedAt = performance.now();
    this.gantt.describe(now);
    this.jobs.describe(now);
  }

  #status(state, found) {
    const { connection } = this;
    const age = Math.max(connection.clock.age(), connection.silence());
    const trouble = TROUBLE[connection.status] ?? "";
    if (connection.badge) setBadge($("data-age"), ...connection.badge);
    else if (connection.status.startsWith("log") || connection.status.startsWith("not")) setBadge($("data-age"), "lost", connection.status);
    else if (age < AGED_MS) setBadge($("data-age"), "live", "live");
    else setBadge($("data-age"), "stale", `stale ${age < 60_000 ? `${Math.floor(age / 1000)} s` : clock(age)}`);
    data(root, "connection", connection.status);
    text($("trouble"), trouble);
    hide($("trouble"), !trouble || (connection.status === "connecting" && age < AGED_MS));
    const heads = [...found.values()].map((p) => count(state.heads.get(p.session) ?? 0));
    text($("seq"), [...heads, `site ${count(state.heads.get(SITE) ?? 0)}`].join(" · "));
    data(root, "seq", JSON.stringify(Object.fromEntries(state.heads)));
    const sorted = [...this.lags].sort((a, b) => a - b);
    text($("lag"), sorted.length ? duration(sorted[sorted.length >> 1]) : "–");
    text($("server-time"), moment(connection.clock.now(), settings.zone, "time"));
    text($("server-zone"), zoneName(settings.zone));
    for (const node of document.querySelectorAll(".zone")) text(node, zoneName(settings.zone));
  }

  /** Open alerts, and what the audit of this page found. */
  #alarms() {
    const { alerts = {}, audit = {} } = this.connection.live[SITE] ?? {};
    const number = (alerts.critical ?? 0) + (alerts.warning ?? 0);
    for (const node of [$("alert-mark"), $("open-alerts")]) if (node) hide(node, number === 0);
    setBadge($("alert-mark"), alerts.critical ? "failed" : "warning", `${count(number)} alert${number === 1 ? "" : "s"}: ${alerts.title ?? ""}`);
    text($("open-alerts"), count(number));
    data($("open-alerts"), "severity", alerts.critical ? "critical" : "warning");
    const findings = audit.findings ?? [];
    hide($("audit-alarm"), findings.length === 0);
    const more = findings.length > 1 ? `, and ${findings.length - 1} more` : "";
    text($("audit-text"), findings.length ? `${findings[0].text} (${findings[0].code}${more}). It was read anew.` : "");
    data(root, "audited", String(audit.rounds ?? 0));
  }

  #favicon(state, found, stale) {
    const lost = [...found.values()].some((p) => p.view.state === "lost");
    const proving = [...state.views.worker.keys()].filter((id) => front(state, id) !== null).length;
    const sick = [...state.views.worker.keys()].some((id) => activity(state, id) === "quarantined");
    const mark = lost || stale ? "lost" : sick ? "failed" : proving ? "busy" : "idle";
    const words = this.connection.badge ? "replay" : stale ? "stale" : lost ? "prover lost" : proving ? `${proving} proving` : "idle";
    if (document.title !== `${words} – cuzk`) document.title = `${words} – cuzk`;
    const icon = $("favicon");
    const href = icon.getAttribute("href").replace(/mark[a-z-]*\.svg/, `mark-${mark}.svg`);
    if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
  }
}

const TROUBLE = {
  connecting: "connecting…",
  waiting: "The connection was lost; trying again.",
  "logged out": "You were logged out. Reload the page to log in again.",
  "not allowed": "Your account may not see the provers.",
};

if (root.dataset.socket) {
  const socket = new URL(root.dataset.socket, location.href);
  socket.protocol = socket.protocol.replace("http", "ws");
  new Page(new Connection(socket.href, root.dataset.snapshot));
}
