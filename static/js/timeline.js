// Bars on one time axis: a row a thing, on a canvas, with labels beside it as text, a tooltip by pointer and keyboard,
// and all of it as a table for who cannot see it. Draws only what is in view; 10,000 bars pan smoothly. More rows than
// SHOWN_ROWS scroll, and only those in view are drawn: a job may have 1024 partitions.

import { data, el, keyed, text, title } from "./dom.js";
import { duration, moment } from "./format.js";
import { LOOK, Paint } from "./paint.js";
import { settings } from "./shell.js";

const AXIS = 20; // pixels above the rows
const MIN_BAR = 2; // pixels of the shortest bar
const SHOWN_ROWS = 40;
const NEW_WORDS = 60; // rows that are put into words at once
const PAUSE_MS = 50;
const UNSEEN_MS = 1000; // between paintings of what is off the screen
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400].map((s) => s * 1000);

/**
 * A row is {key, name, title, bars, ends, describe(now), live(now)}, `live` being the words beside it, if any. Bars are
 * {id, from, to (null: lasts), state, lane, name, text()}, sorted by `from`; ends {at, state}. Times are milliseconds of the
 * database's clock.
 */
export class Timeline {
  rows = [];
  shown = []; // those in view
  #first = 0; // number of the first of them
  #follows = true; // in view are the last rows; until somebody scrolls
  #range = [0, 1]; // what is asked for
  #view = null; // what the viewer has zoomed to, or null
  #selected = null; // [row, bar]
  #describing = 0; // timer
  #now = 0;
  #paintedAt = -Infinity;
  plotWidth = 0; // told by an observer: asking in the middle of a frame would lay the page out
  visible = true; // on the screen, or nearly: what is scrolled away is not painted

  constructor(root, { label, rowHeight = 20, relative = false }) {
    this.rowHeight = rowHeight;
    this.relative = relative;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": label });
    this.names = el("div", { class: "tl-names" });
    this.notes = el("div", { class: "tl-notes", "aria-hidden": true });
    this.plot = el("div", { class: "tl-plot" }, this.canvas);
    this.tip = el("div", { class: "tl-tip", role: "status", hidden: true });
    this.body = el("tbody", { role: "rowgroup" });
    this.table = el("div", { class: "sr" }, el("table", { class: "tl-table", role: "table", "aria-label": label }, this.body));
    this.scroller = el("div", { class: "tl-scroll" }, el("div", {}, el("div", { class: "tl-grid" }, this.names, this.plot, this.notes)));
    root.classList.add("timeline");
    root.append(this.scroller, this.tip, this.table);
    this.root = root;
    this.context = this.canvas.getContext("2d");
    this.#listen();
  }

  /** New rows and a new range. */
  set(rows, from, to, now) {
    const before = this.rows.length;
    this.rows = rows;
    this.#range = [from, to];
    if (rows.length !== before) this.#resizeRows();
    this.#show(now);
  }

  /** As many rows as there are now: beyond SHOWN_ROWS they scroll. */
  #resizeRows() {
    const long = this.rows.length > SHOWN_ROWS;
    this.scroller.classList.toggle("long", long);
    this.scroller.style.maxHeight = long ? `${AXIS + SHOWN_ROWS * this.rowHeight}px` : "";
    this.scroller.firstChild.style.height = long ? `${AXIS + this.rows.length * this.rowHeight}px` : "";
    const last = Math.max(0, this.rows.length - SHOWN_ROWS);
    this.#first = this.#follows ? last : Math.min(this.#first, last);
    if (long) this.scroller.scrollTop = this.#first * this.rowHeight;
  }

  #scrolled() {
    const first = Math.round(this.scroller.scrollTop / this.rowHeight);
    this.#follows = first >= this.rows.length - SHOWN_ROWS;
    if (first === this.#first) return;
    this.#first = first;
    this.#show(this.#now);
    this.#hideTip();
    this.draw(this.#now);
  }

  /** Elements for the rows in view. */
  #show(now) {
    this.shown = this.rows.slice(this.#first, this.#first + SHOWN_ROWS);
    const rows = this.shown;
    const style = (node) => { node.style.height = `${this.rowHeight}px`; return node; };
    keyed(this.names, rows, (r) => r.key, () => ({ node: style(el("div")) }), ({ node }, row) => {
      text(node, row.name);
      title(node, row.title ?? row.name);
    });
    this.notes.classList.toggle("wordless", !rows.some((row) => row.live));
    keyed(this.notes, rows, (r) => r.key, () => ({ node: style(el("div")) }), ({ node }, row) => {
      text(node, row.live?.(now) ?? "");
      data(node, "state", row.state ?? "");
    });
  }

  /** Bring the words beside the rows up to date. */
  tick(now) {
    this.shown.forEach((row, i) => text(this.notes.children[i], row.live?.(now) ?? ""));
  }

  /**
   * All rows as words; often enough for a screen reader, not for each frame. What has ended is said once. A thousand new
   * rows come some at a time, so that no frame waits for them.
   */
  describe(now) {
    const some = this.rows.slice(0, this.body.childElementCount + NEW_WORDS);
    clearTimeout(this.#describing);
    if (some.length < this.rows.length) this.#describing = setTimeout(() => this.describe(now), PAUSE_MS);
    keyed(this.body, some, (r) => r.key, makeWords, (part, row) => {
      if (part.row === row && row.ends?.length) return;
      part.row = row;
      text(part.cells[0], row.title ?? row.name);
      text(part.cells[1], row.describe(now));
    });
  }

  /**
   * Draw it as it is at `now`: at once, because who calls is in a frame or an event of his own. What is off the screen is
   * painted now and then, for a page that is printed or scrolled fast.
   */
  draw(now) {
    this.#now = now;
    if (this.plotWidth === 0) return;
    this.#resize(this.plotWidth, AXIS + this.shown.length * this.rowHeight);
    if (this.visible || Math.abs(now - this.#paintedAt) > UNSEEN_MS) this.#paint();
  }

  themeChanged() {
    Paint.forget();
    this.draw(this.#now);
  }

  get #span() {
    return this.#view ?? this.#range;
  }

  #x(at) {
    const [from, to] = this.#span;
    return ((at - from) / (to - from)) * this.width;
  }

  // -- painting -------------------------------------------------------------------------------------------------------

  #paint() {
    this.#paintedAt = this.#now;
    this.paint = Paint.current(this.plot);
    const c = this.context;
    c.clearRect(0, 0, this.width, this.height);
    c.font = this.paint.font;
    c.textBaseline = "middle";
    this.#axis(c);
    this.fills = new Map(); // all bars of a colour are one path: a fill a colour, not a bar
    this.words = [];
    this.shown.forEach((row, i) => this.#bars(c, row, AXIS + i * this.rowHeight));
    this.#fill(c);
    this.shown.forEach((row, i) => this.#ends(c, row, AXIS + i * this.rowHeight));
    this.#nowLine(c);
    this.#mark(c);
  }

  #resize(width, height) {
    const ratio = devicePixelRatio || 1;
    if (this.width === width && this.height === height && this.ratio === ratio) return;
    this.#paintedAt = -Infinity; // it is empty then
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  #axis(c) {
    const [from, to] = this.#span;
    const step = STEPS.find((s) => ((to - from) / s) * 64 < this.width) ?? STEPS.at(-1);
    const origin = this.relative ? this.#range[0] : 0;
    c.strokeStyle = this.paint.colour.grid;
    c.fillStyle = this.paint.colour.muted;
    c.lineWidth = 1;
    for (let t = origin + Math.ceil((from - origin) / step) * step; t <= to; t += step) {
      const x = Math.round(this.#x(t)) + 0.5;
      c.beginPath();
      c.moveTo(x, AXIS - 4);
      c.lineTo(x, this.height);
      c.stroke();
      const name = this.relative ? this.#elapsed(t - origin, step) : moment(t, settings.zone, "time");
      c.textAlign = x < 16 ? "left" : "center";
      if (x < this.width - 14) c.fillText(name, x < 16 ? 0 : x, 8);
    }
  }

  #elapsed(ms, step) {
    if (ms === 0) return "0";
    return step < 1000 ? `${(ms / 1000).toFixed(1)}s` : duration(ms).replace(".0s", "s");
  }

  #bars(c, row, top) {
    const [from, to] = this.#span;
    const bars = row.bars;
    const last = [-Infinity, -Infinity]; // by lane, where the last bar begins: of those on one pixel only one is drawn
    for (let i = firstVisible(bars, from); i < bars.length && bars[i].from <= to; i++) {
      const bar = bars[i];
      const left = this.#x(bar.from);
      const right = Math.max(this.#x(bar.to ?? Math.max(this.#now, bar.from)), left + MIN_BAR);
      const lane = bar.lane ?? 0;
      const crowded = right - left <= MIN_BAR && left < last[lane] + 1 && i < bars.length - 1;
      if (right < 0 || crowded) continue;
      this.#bar(c, bar, left, right, top);
      last[lane] = left;
    }
  }

  #ends(c, row, top) {
    for (const end of row.ends ?? []) this.#end(c, end, this.#x(end.at), top);
  }

  #bar(c, bar, left, right, top) {
    const [token, style] = LOOK[bar.state];
    const tall = this.rowHeight - 6;
    let [y, height] = style === "thin" ? [top + this.rowHeight / 2 - 1.5, 3] : [top + 3, tall];
    if (bar.lanes) [y, height] = bar.lane ? [top + this.rowHeight - 9, 5] : [top + 4, this.rowHeight - 15];
    const fill = this.paint.fill(c, token, style);
    if (!this.fills.has(fill)) this.fills.set(fill, new Path2D());
    if (style === "thin" || right - left < 5) this.fills.get(fill).rect(left, y, right - left, height);
    else this.fills.get(fill).roundRect(left, y, right - left, height, 2);
    if (bar.name && !bar.lane && right - left > 28) this.words.push([bar, left, right, y + height / 2 + 0.5]);
  }

  /** The bars that were collected, then the names on those that have room. */
  #fill(c) {
    for (const [fill, path] of this.fills) {
      c.fillStyle = fill;
      c.fill(path);
    }
    c.textAlign = "left";
    for (const [bar, left, right, middle] of this.words) {
      const room = Math.min(right, this.width) - Math.max(left, 0);
      c.fillStyle = bar.state === "device" ? "#04210f" : this.paint.colour.ink;
      if (c.measureText(bar.name).width < room - 8) c.fillText(bar.name, Math.max(left, 0) + 4, middle);
    }
  }

  /** How an attempt ended: a tick for what went well, a cross or a wedge for what did not. */
  #end(c, end, x, top) {
    if (x < -6 || x > this.width + 6) return;
    const y = top + this.rowHeight / 2;
    c.strokeStyle = c.fillStyle = this.paint.colour[LOOK[end.state][0]];
    c.lineWidth = 2;
    c.beginPath();
    if (end.state === "done") {
      c.moveTo(x + 4, y);
      c.lineTo(x + 6.5, y + 3);
      c.lineTo(x + 11, y - 3.5);
    } else {
      for (const [dx, dy] of [[1, 1], [1, -1]]) {
        c.moveTo(x + 7 - 3.5 * dx, y - 3.5 * dy);
        c.lineTo(x + 7 + 3.5 * dx, y + 3.5 * dy);
      }
    }
    c.stroke();
  }

  #nowLine(c) {
    const x = this.#x(this.#now);
    if (x < 0 || x > this.width + 1) return;
    c.strokeStyle = this.paint.colour.now;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(Math.min(Math.round(x), this.width - 1) + 0.5, AXIS - 4);
    c.lineTo(Math.min(Math.round(x), this.width - 1) + 0.5, this.height);
    c.stroke();
  }

  #mark(c) {
    if (!this.#selected || document.activeElement !== this.canvas) return;
    const [r, bar] = this.#selected;
    const index = this.shown.findIndex((row) => row.key === r);
    if (index < 0) return;
    const left = this.#x(bar.from);
    const right = Math.max(this.#x(bar.to ?? this.#now), left + MIN_BAR);
    c.strokeStyle = this.paint.colour.focus;
    c.lineWidth = 2;
    c.strokeRect(left - 1, AXIS + index * this.rowHeight + 1, right - left + 2, this.rowHeight - 2);
  }

  // -- pointer and keyboard -------------------------------------------------------------------------------------------

  #listen() {
    const on = (name, what) => this.canvas.addEventListener(name, what);
    on("pointermove", (event) => (this.drag ? this.#pan(event) : this.#hover(event)));
    on("pointerleave", () => this.#hideTip());
    on("blur", () => { this.#hideTip(); this.draw(this.#now); });
    on("pointerdown", (event) => {
      if (event.pointerType === "touch") return;
      this.drag = { x: event.clientX, span: this.#span };
      this.canvas.setPointerCapture(event.pointerId);
    });
    on("pointerup", () => { this.drag = null; });
    on("dblclick", () => this.#zoomTo(null));
    on("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      this.#zoom(event.deltaY < 0 ? 0.8 : 1.25, event.offsetX / this.width);
    });
    on("keydown", (event) => this.#key(event));
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(([entry]) => {
      this.plotWidth = Math.floor(entry.contentRect.width);
      this.draw(this.#now);
    }).observe(this.plot);
    new IntersectionObserver(([entry]) => {
      this.visible = entry.isIntersecting;
      this.draw(this.#now);
    }, { rootMargin: "200px" }).observe(this.plot);
  }

  #zoomTo(view) {
    this.#view = view;
    this.draw(this.#now);
  }

  #zoom(factor, at) {
    const [from, to] = this.#span;
    const centre = from + (to - from) * at;
    this.#zoomTo([centre - (centre - from) * factor, centre + (to - centre) * factor]);
  }

  #pan(event) {
    const [from, to] = this.drag.span;
    const shift = ((this.drag.x - event.clientX) / this.width) * (to - from);
    if (Math.abs(event.clientX - this.drag.x) > 2) this.#zoomTo([from + shift, to + shift]);
  }

  #hover(event) {
    const index = Math.floor((event.offsetY - AXIS) / this.rowHeight);
    const row = this.shown[index];
    const bar = row && this.#barAt(row, event.offsetX, event.offsetY - AXIS - index * this.rowHeight);
    if (bar) this.#showTip(row, bar, event.offsetX, AXIS + (index + 1) * this.rowHeight);
    else this.#hideTip();
  }

  #barAt(row, x, y) {
    const low = y > this.rowHeight - 10;
    const inside = (bar) => x >= this.#x(bar.from) - 1 && x <= Math.max(this.#x(bar.to ?? this.#now), this.#x(bar.from) + MIN_BAR) + 1;
    const hits = row.bars.filter(inside);
    return hits.find((bar) => !bar.lanes || Boolean(bar.lane) === low) ?? hits[0];
  }

  #showTip(row, bar, x, y) {
    text(this.tip, bar.text(this.#now));
    this.tip.hidden = false;
    const left = this.scroller.offsetLeft + this.plot.offsetLeft + Math.max(0, Math.min(x, this.width));
    this.tip.style.left = `${Math.max(0, Math.min(left - 30, this.root.clientWidth - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${this.scroller.offsetTop + this.plot.offsetTop + y + 4}px`;
  }

  #hideTip() {
    this.tip.hidden = true;
  }

  #key(event) {
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    if (event.key in steps) this.#select(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") this.#zoom(0.7, 0.5);
    else if (event.key === "-") this.#zoom(1.4, 0.5);
    else if (event.key === "0" || event.key === "Escape") { this.#zoomTo(null); this.#hideTip(); }
    else return;
    event.preventDefault();
  }

  /** Move the selection by rows and bars; a row without bars is passed over. */
  #select(rows, bars) {
    const filled = this.rows.filter((row) => row.bars.length);
    if (!filled.length) return;
    const [key, old] = this.#selected ?? [filled[0].key, null];
    const r = Math.max(0, Math.min(filled.length - 1, filled.findIndex((row) => row.key === key) + rows));
    const row = filled[r];
    const at = old === null ? row.bars.length - 1 : nearest(row.bars, old.from) + (rows ? 0 : bars);
    const bar = row.bars[Math.max(0, Math.min(row.bars.length - 1, at))];
    this.#selected = [row.key, bar];
    this.#reveal(this.rows.indexOf(row));
    this.draw(this.#now);
    this.#showTip(row, bar, this.#x(bar.from), AXIS + (this.shown.indexOf(row) + 1) * this.rowHeight);
  }

  /** Scroll until a row is in view. */
  #reveal(index) {
    if (index >= this.#first && index < this.#first + SHOWN_ROWS) return;
    this.scroller.scrollTop = (index < this.#first ? index : index - SHOWN_ROWS + 1) * this.rowHeight;
    this.#scrolled();
  }
}

/** A row of the table; its roles are named, because it is not laid out as one (see timeline.css). */
function makeWords() {
  const cells = [el("th", { scope: "row", role: "rowheader" }), el("td", { role: "cell" })];
  return { node: el("tr", { role: "row" }, ...cells), cells, row: null };
}

/** The first bar that may reach into the view: bars of a lane do not overlap, so one before the first later one. */
function firstVisible(bars, from) {
  let low = 0;
  let high = bars.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars[middle].from < from) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 4);
}

function nearest(bars, at) {
  let best = 0;
  bars.forEach((bar, i) => { if (Math.abs(bar.from - at) < Math.abs(bars[best].from - at)) best = i; });
  return best;
}

/** A range that grows in steps, so that the bars don't shrink at every frame. */
export function niceSpan(ms) {
  const steps = [2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300, 420, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200];
  return (steps.find((s) => s * 1000 >= ms) ?? Math.ceil(ms / 3_600_000) * 3600) * 1000;
}
