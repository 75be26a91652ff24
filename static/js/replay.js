// The live page as it was: the same page, fed from the log instead of the socket. A move of the slider takes the state of
// that moment from the server; playing folds the rows in between by the fold of the live page.

import { text } from "./dom.js";
import { feed, fromJson, Gap } from "./fold.js";
import { moment, zoneName } from "./format.js";
import { LEASE_MS } from "./lease.js";
import { Page } from "./live.js";
import { settings } from "./shell.js";

const TICK_MS = 100;
const AHEAD_S = 4; // of playing that are fetched before they are needed
const PIECE_MS = 3_600_000; // that the server gives at most
const SAMPLE_MS = 70_000; // gauges stand for so long

/** What a Page follows (as connection.js is), at a moment of its own. */
export class Replay extends EventTarget {
  /** milliseconds since 1970 */
  at = 0;
  state = null;
  live = {};
  status = "open";
  stale = false;
  badge = ["live", "replay"];
  clock = { now: () => this.at, age: () => 0, readUs: 0 };
  #rows = new Map(); // session -> rows to come, in its order
  #samples = []; // to come, oldest first
  #until = 0; // to where rows and samples are here
  #fetching = null;

  constructor({ state, rows }) {
    super();
    this.urls = { state, rows };
  }

  silence() {
    return 0;
  }

  start(snapshot) {
    if (snapshot) this.#take(snapshot);
  }

  /** Show another moment. Rejects with a message when the server refuses. */
  async seek(at) {
    this.#take(await this.#get(`${this.urls.state}?at=${encodeURIComponent(new Date(at).toISOString())}`));
  }

  /** Go on to a later moment, by the rows in between; by a seek where these are too many. */
  async advance(at, rate) {
    if (at > this.#until && this.#until < Date.now()) await this.#fetch(at + rate * AHEAD_S * 1000);
    if (at > this.#until + PIECE_MS) return this.seek(at);
    try {
      this.#apply(at);
    } catch (error) {
      if (!(error instanceof Gap)) throw error;
      return this.seek(at);
    }
    if (this.#until - at < (rate * AHEAD_S * 1000) / 2) this.#fetch(at + rate * AHEAD_S * 1000);
  }

  #take(snapshot) {
    this.state = fromJson(snapshot.state);
    this.live = snapshot.live;
    this.#rows.clear();
    this.#samples = [];
    this.at = this.#until = snapshot.now_us / 1000;
    this.#move(this.at);
  }

  #move(at) {
    this.at = at;
    this.clock.readUs = at * 1000;
    for (const signs of Object.values(this.live)) hear(signs, at);
    for (const id of this.state.views.session.keys()) this.live[id] ??= { recorded: false };
    this.dispatchEvent(new CustomEvent("state", { detail: { newest: null } }));
  }

  #apply(at) {
    const ready = [];
    for (const [session, rows] of this.#rows) {
      const n = rows.findIndex((row) => row[2] / 1000 > at);
      ready.push(...rows.splice(0, n < 0 ? rows.length : n));
      if (!rows.length) this.#rows.delete(session);
    }
    feed(this.state, ready);
    while (this.#samples.length && this.#samples[0][1] / 1000 <= at) {
      const [session, us, gauges] = this.#samples.shift();
      this.live[session] = { anomalies: 0, ...this.live[session], sample_us: us, gauges };
    }
    this.#move(at);
  }

  /** Rows and samples up to a moment, once at a time. */
  async #fetch(until) {
    const started = this.#until;
    this.#fetching ??= this.#get(`${this.urls.rows}?after=${iso(started)}&until=${iso(Math.min(until, started + PIECE_MS))}`)
      .then((piece) => this.#until === started && this.#keep(piece))
      .finally(() => { this.#fetching = null; });
    await this.#fetching;
  }

  #keep(piece) {
    if (piece.reset) {
      this.#until = -Infinity; // the next move is a seek
      return;
    }
    for (const row of piece.rows) {
      if (!this.#rows.has(row[0])) this.#rows.set(row[0], []);
      this.#rows.get(row[0]).push(row);
    }
    this.#samples.push(...piece.samples);
    this.#until = piece.until_us / 1000;
  }

  async #get(url) {
    const answer = await fetch(url, { headers: { Accept: "application/json" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") throw new Error("You were logged out. Reload the page to log in again.");
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(body.message ?? `The site answered ${answer.status}.`);
    return body;
  }
}

const iso = (at) => encodeURIComponent(new Date(at).toISOString());

/** What a sample says at a moment: it was a sign of life; without one near enough nothing is recorded. */
function hear(signs, at) {
  const age = signs.sample_us ? at - signs.sample_us / 1000 : Infinity;
  signs.recorded = age < LEASE_MS;
  signs.heartbeat_us = signs.recorded ? signs.sample_us : null;
  if (age > SAMPLE_MS) signs.gauges = null;
}

// -- the bar ----------------------------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

class Bar {
  span = 3600; // seconds from one end of the slider to the other
  rate = 1;
  playing = false;
  from = 0;
  wanted = null; // the moment that is asked for next
  busy = false;

  constructor(replay, bounds) {
    Object.assign(this, { replay, first: bounds.from_us / 1000, last: bounds.to_us / 1000 });
    this.slider = $("replay-slider");
    this.#centre(replay.at);
    this.slider.addEventListener("input", () => this.go(this.from + Number(this.slider.value) * 1000));
    $("replay-play").addEventListener("click", () => this.#play(!this.playing));
    $("replay-jump").addEventListener("submit", (event) => this.#jump(event));
    for (const button of document.querySelectorAll("[data-step]")) {
      button.addEventListener("click", () => this.go((this.wanted ?? replay.at) + Number(button.dataset.step) * 1000));
    }
    choose($("replay-rates"), (button) => { this.rate = Number(button.dataset.rate); });
    choose($("replay-spans"), (button) => { this.span = Number(button.dataset.span); this.#centre(replay.at); });
    document.addEventListener("zonechange", () => this.show());
    this.show();
  }

  /** Ask for a moment; while one is on its way only the newest wish is kept. */
  async go(at) {
    this.wanted = Math.min(Math.max(at, this.first), Date.now());
    this.show();
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.wanted !== null) {
        const next = this.wanted;
        await this.replay.seek(next);
        if (this.wanted === next) this.wanted = null;
      }
      text($("replay-said"), "");
    } catch (error) {
      this.wanted = null;
      text($("replay-said"), error.message);
    }
    this.busy = false;
    this.show();
    this.#address();
  }

  #play(playing) {
    this.playing = playing;
    $("replay-play").setAttribute("aria-pressed", String(playing));
    text($("replay-play"), playing ? "Pause" : "Play");
    if (playing) this.#run();
    else this.#address();
  }

  async #run() {
    let before = performance.now();
    while (this.playing) {
      await new Promise((done) => { setTimeout(done, TICK_MS); });
      const now = performance.now();
      const at = this.replay.at + (now - before) * this.rate;
      before = now;
      if (this.busy) continue; // somebody moves the slider
      if (at > Date.now()) return this.#play(false);
      try {
        await this.replay.advance(at, this.rate);
      } catch (error) {
        text($("replay-said"), error.message);
        return this.#play(false);
      }
      this.show();
    }
  }

  #jump(event) {
    event.preventDefault();
    const given = $("replay-at").value;
    this.go(Date.parse(settings.zone === "utc" ? `${given}Z` : given));
  }

  /** Put the slider's span around a moment. */
  #centre(at) {
    const whole = this.span * 1000;
    this.from = Math.max(Math.min(at - whole / 2, this.last - whole), Math.min(this.first, this.last - whole));
    this.slider.max = this.span;
    this.slider.step = this.span > 3600 ? 10 : 1;
    this.show();
  }

  show() {
    const at = this.wanted ?? this.replay.at;
    if (at < this.from || at > this.from + this.span * 1000) return this.#centre(at);
    const words = moment(at, settings.zone);
    text($("replay-moment"), words);
    this.slider.value = (at - this.from) / 1000;
    this.slider.setAttribute("aria-valuetext", `${words} ${zoneName(settings.zone, at)}`);
    text($("replay-from"), moment(this.from, settings.zone));
    text($("replay-to"), moment(this.from + this.span * 1000, settings.zone));
    for (const node of document.querySelectorAll(".replay-bar .zone")) text(node, zoneName(settings.zone, at));
  }

  #address() {
    history.replaceState(null, "", `?at=${new Date(this.replay.at).toISOString()}`);
  }
}

/** A group of buttons of which one is pressed. */
function choose(group, chosen) {
  group.addEventListener("click", ({ target }) => {
    if (target.tagName !== "BUTTON") return;
    for (const button of group.children) button.setAttribute("aria-pressed", String(button === target));
    chosen(target);
  });
}

const replay = new Replay($("live").dataset);
new Page(replay);
new Bar(replay, JSON.parse($("replay-bounds").textContent));
