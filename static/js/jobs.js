// Open jobs with their waterfalls, and a table of those that ended last.

import { progress } from "./attempts.js";
import { jobRows } from "./bars.js";
import { attribute, data, el, hide, keyed, setBadge, text, title } from "./dom.js";
import { get, JOB_ENDS, since } from "./fold.js";
import { duration, kindName, moment } from "./format.js";
import { setLabel } from "./label.js";
import { settings } from "./shell.js";
import { niceSpan, Timeline } from "./timeline.js";

const SHOWN = 12; // open jobs with a card of their own; the others wait in a line
const RECENT = 10;
const PRIORITIES = { 4: "critical", 3: "high", 2: "normal", 1: "low" };
const WAITING = new Set(["queued", "held"]);

/** Open jobs, and those that ended but still hold a worker: at work first, then by (priority, deadline, number). */
export function openJobs(state) {
  const holding = new Set();
  for (const held of state.held.values()) for (const key of held) holding.add(get(state, "attempt", key).job);
  const open = [...state.views.job].filter(([id, view]) => !JOB_ENDS.has(view.state) || holding.has(id));
  const key = ([, view]) => [
    WAITING.has(view.state) ? 1 : 0, -(view.detail.priority ?? 0), view.detail.deadline_us ?? Infinity, view.detail.number ?? 0,
  ];
  return open.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    const i = x.findIndex((value, j) => value !== y[j]);
    return i < 0 ? 0 : x[i] < y[i] ? -1 : 1;
  });
}

export function endedJobs(state) {
  const ended = [...state.views.job].filter(([, view]) => JOB_ENDS.has(view.state));
  return ended.sort(([, a], [, b]) => since(b) - since(a) || (b.detail.number ?? 0) - (a.detail.number ?? 0));
}

export class JobCards {
  constructor(root, recent, jobUrl) {
    Object.assign(this, { root, recent, jobUrl });
    this.more = el("p", { class: "card more-jobs", hidden: true });
    root.after(this.more);
  }

  link(id) {
    return this.jobUrl.replace("00000000-0000-0000-0000-000000000000", id);
  }

  /** Bring cards and table up to date; returns how many jobs have a card. */
  update(state, now) {
    const open = openJobs(state);
    const ended = endedJobs(state);
    // an idle page still shows how the last job went
    const shown = open.length ? open.slice(0, SHOWN) : ended.slice(0, 1);
    keyed(this.root, shown, ([id]) => id, ([id]) => makeJob(id, this.link(id)), (card, [id, view]) => {
      fillJob(card, state, id, view, now);
    });
    hide(this.more, open.length <= SHOWN);
    text(this.more, `and ${open.length - SHOWN} more in the queue`);
    this.#table(ended.slice(0, RECENT));
    return shown.length;
  }

  tick(state, now) {
    for (const [id, card] of this.root.parts ?? []) tickJob(card, state, id, now);
  }

  describe(now) {
    for (const [, card] of this.root.parts ?? []) card.timeline.describe(now);
  }

  themeChanged() {
    for (const [, card] of this.root.parts ?? []) card.timeline.themeChanged();
  }

  #table(ended) {
    keyed(this.recent, ended, ([id]) => id, ([id]) => makeRow(this.link(id)), (row, [, view]) => fillRow(row, view));
  }
}

function makeJob(id, href) {
  const card = {
    number: el("a", { class: "number", href }), badge: el("span", { class: "badge" }), kind: el("span", { class: "kind" }),
    label: el("a", { class: "label", href }), copy: el("button", { class: "copy", type: "button" }, "copy"),
    progress: el("span", { class: "progress" }), facts: el("div", { class: "job-facts" }), fill: el("span"),
    error: el("p", { class: "notice error", hidden: true }), plot: el("div", { class: "plot" }),
  };
  card.meter = el("div", { class: "meter", role: "progressbar", "aria-label": "Partitions proved", "aria-valuemin": 0 }, card.fill);
  card.fact = Object.fromEntries(["age", "waited", "again", "priority", "deadline", "left"].map((name) => {
    const value = el("b");
    const node = el("span", {}, `${FACT_NAMES[name]} `, value);
    card.facts.append(node);
    return [name, { node, value }];
  }));
  card.node = el("article", { class: "card job", "data-job": id },
    el("div", { class: "job-head" }, card.badge, card.kind, card.label, card.copy, card.number, card.progress),
    card.facts, card.error, card.meter, card.plot);
  card.timeline = new Timeline(card.plot, { label: "Partitions of the job over time", relative: true });
  return card;
}

const FACT_NAMES = {
  age: "submitted", waited: "waited", again: "queued again", priority: "priority", deadline: "deadline", left: "about",
};

function fillJob(card, state, id, view, now) {
  const { detail } = view;
  text(card.number, `#${detail.number ?? "?"}`);
  setBadge(card.badge, view.state);
  text(card.kind, kindName(detail.kind));
  const label = String(detail.request_id ?? id);
  setLabel(card.label, label);
  data(card.copy, "copy", label);
  setFact(card.fact.priority, PRIORITIES[detail.priority] ?? (detail.priority === undefined ? null : String(detail.priority)));
  const rows = jobRows(state, id);
  card.node.classList.toggle("bare", rows.length === 0);
  card.counts = progress(state, id, detail.partitions ?? 1);
  text(card.progress, `${card.counts.done} / ${card.counts.all} done`);
  card.fill.style.width = `${(100 * card.counts.done) / card.counts.all}%`;
  attribute(card.meter, "aria-valuenow", String(card.counts.done));
  attribute(card.meter, "aria-valuemax", String(card.counts.all));
  hide(card.error, !detail.error);
  text(card.error, detail.error ? `${view.reason ?? detail.error_code ?? "failed"}: ${detail.error}` : "");
  card.over = JOB_ENDS.has(view.state) && !rows.some((row) => row.bars.at(-1)?.to === null);
  const [from, to] = span(card, view, rows, now);
  card.timeline.set(rows, from, to, now);
  tickJob(card, state, id, now);
}

/** From the first thing that was done to the end, or a little beyond now. */
function span({ over }, view, rows, now) {
  const from = Math.min(...rows.flatMap((row) => (row.bars.length ? [row.bars[0].from] : [])), now);
  if (over) return [from, since(view) / 1000 + 0.02 * (since(view) / 1000 - from) + 100];
  return [from, from + niceSpan(now - from)];
}

function tickJob(card, state, id, now) {
  const view = get(state, "job", id);
  const { submitted, started, again } = course(view);
  const over = JOB_ENDS.has(view.state);
  setFact(card.fact.age, over ? moment(submitted, settings.zone, "time") : `${duration(now - submitted)} ago`);
  setFact(card.fact.waited, view.detail.source ? null : duration((started ?? (over ? since(view) / 1000 : now)) - submitted));
  setFact(card.fact.again, again === null ? null : `${duration(now - again)} ago`);
  setDeadline(card.fact.deadline, view.detail.deadline_us, now, over);
  setFact(card.fact.left, over || WAITING.has(view.state) ? null : estimate(card.counts, now));
  if (!card.over) card.timeline.tick(now);
  card.timeline.draw(now);
}

/**
 * When a job was submitted and first begun, and when it went back to the queue if it waits there again (its prover was
 * lost): a state that is entered twice keeps its last time, so the earliest of all times stands for the first.
 */
function course({ state, times }) {
  const submitted = Math.min(...Object.values(times)) / 1000;
  const started = times.loading === undefined ? null : times.loading / 1000;
  const again = WAITING.has(state) && started !== null ? times[state] / 1000 : null;
  return { submitted, started, again };
}

/** What is left, if enough is known to say: at the rate of the partitions that are done. */
function estimate({ done, all, first }, now) {
  if (done < 2 || done >= all || !Number.isFinite(first)) return null;
  return `${duration(((now - first) / done) * (all - done))} left`;
}

function setFact({ node, value }, words) {
  hide(node, words === null);
  if (words !== null) text(value, words);
}

function setDeadline(fact, us, now, over) {
  setFact(fact, us ? (us / 1000 >= now ? `in ${duration(us / 1000 - now)}` : over ? moment(us / 1000, settings.zone) : `missed ${duration(now - us / 1000)} ago`) : null);
  fact.node.classList.toggle("late", Boolean(us) && us / 1000 < now && !over);
}

const COLUMNS = ["#", "State", "Kind", "Request", "Partitions", "Waited", "Took", "Ended"];

function makeRow(href) {
  const row = {
    number: el("a", { href }), badge: el("span", { class: "badge" }), kind: el("span", { class: "kind" }),
    label: el("a", { class: "label", href }), error: el("div", { class: "small muted" }), partitions: el("span"),
    waited: el("span"), took: el("span"), ended: el("span", { class: "when" }),
  };
  const cells = [row.number, row.badge, row.kind, [row.label, row.error], row.partitions, row.waited, row.took, row.ended];
  const numeric = new Set(["#", "Partitions", "Waited", "Took"]);
  row.node = el("tr", {}, ...cells.map((content, i) => {
    return el("td", { class: numeric.has(COLUMNS[i]) ? "num" : null, "data-name": COLUMNS[i] }, ...[content].flat());
  }));
  return row;
}

function fillRow(row, view) {
  const { detail } = view;
  const { submitted, started } = course(view);
  text(row.number, String(detail.number ?? "?"));
  setBadge(row.badge, view.state);
  text(row.kind, kindName(detail.kind));
  setLabel(row.label, String(detail.request_id ?? ""));
  text(row.error, detail.error ? `${view.reason ?? detail.error_code ?? ""} ${detail.error}`.trim() : "");
  hide(row.error, !detail.error);
  text(row.partitions, String(detail.partitions ?? 1));
  text(row.waited, duration((started ?? since(view) / 1000) - submitted));
  text(row.took, duration(started === null ? null : since(view) / 1000 - started));
  text(row.ended, moment(since(view) / 1000, settings.zone));
  title(row.ended, `submitted ${moment(submitted, settings.zone)} by ${detail.submitted_by ?? "?"}`);
}
