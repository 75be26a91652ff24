// Jobs that ended as stacked bars, the median and p95 of their total as lines over them. The table below says the same.

import { el } from "./dom.js";
import { duration, moment } from "./format.js";
import { Paint } from "./paint.js";
import { settings } from "./shell.js";

const HEIGHT = 240;
const EDGE = { left: 44, right: 58, top: 12, bottom: 22 }; // pixels around the plot
const STACK = [["done", "done"], ["failed", "failed"], ["cancelled", "off"]];
const LINES = [[0, "synth", []], [1, "ready", [4, 3]]]; // percentile, colour, dashes

const root = document.getElementById("chart");
const found = document.getElementById("chart-data");

class Chart {
  constructor(data) {
    this.data = data;
    this.canvas = el("canvas", { role: "img", "aria-label": "Jobs that ended and how long they took; the table below has the numbers" });
    root.append(this.canvas);
    this.mostJobs = Math.max(1, ...data.bars.map((bar) => bar.done + bar.failed + bar.cancelled));
    this.mostMs = Math.max(1, ...data.bars.map((bar) => bar.took?.[1] ?? 0));
    new ResizeObserver(() => this.draw()).observe(root);
    for (const name of ["themechange", "zonechange"]) document.addEventListener(name, () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  redraw() {
    Paint.forget();
    this.draw();
  }

  draw() {
    this.width = root.clientWidth;
    if (!this.width) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    this.paint = Paint.current(root);
    const c = this.canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = this.paint.font;
    this.#axes(c);
    for (const bar of this.data.bars) this.#bar(c, bar);
    for (const line of LINES) this.#line(c, ...line);
  }

  #x(at) {
    const { from, bars, length_ms } = this.data;
    const to = Math.max(this.data.to, ...bars.map((bar) => bar.at + length_ms)); // a bar is whole when its hour is not over
    return EDGE.left + ((at - from) / (to - from)) * (this.width - EDGE.left - EDGE.right);
  }

  #y(share) {
    return HEIGHT - EDGE.bottom - share * (HEIGHT - EDGE.top - EDGE.bottom);
  }

  #axes(c) {
    c.textBaseline = "middle";
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(this.#y(share)) + 0.5;
      c.strokeStyle = this.paint.colour.grid;
      c.beginPath();
      c.moveTo(EDGE.left, y);
      c.lineTo(this.width - EDGE.right, y);
      c.stroke();
      c.fillStyle = this.paint.colour.muted;
      c.textAlign = "right";
      c.fillText(String(Math.round(share * this.mostJobs)), EDGE.left - 6, y);
      c.textAlign = "left";
      c.fillText(duration(share * this.mostMs), this.width - EDGE.right + 6, y);
    }
    const { from, to } = this.data;
    const steps = Math.max(1, Math.min(6, Math.floor(this.width / 190)));
    c.textAlign = "center";
    for (let n = 0; n < steps; n++) {
      const at = from + ((n + 0.5) / steps) * (to - from);
      c.fillText(moment(at, settings.zone).slice(5, 16), this.#x(at), HEIGHT - 8);
    }
  }

  #bar(c, bar) {
    const left = this.#x(bar.at);
    const width = Math.max(1, this.#x(bar.at + this.data.length_ms) - left - 1);
    let below = 0;
    for (const [name, colour] of STACK) {
      if (!bar[name]) continue;
      const [low, high] = [this.#y(below / this.mostJobs), this.#y((below + bar[name]) / this.mostJobs)];
      c.fillStyle = this.paint.colour[colour];
      c.fillRect(left, high, width, Math.max(1, low - high));
      below += bar[name];
    }
  }

  #line(c, index, colour, dashes) {
    c.strokeStyle = this.paint.colour[colour];
    c.lineWidth = 2;
    c.setLineDash(dashes);
    c.beginPath();
    let before = null;
    for (const bar of this.data.bars) {
      const ms = bar.took?.[index];
      if (ms === undefined || ms === null) continue;
      const point = [this.#x(bar.at + this.data.length_ms / 2), this.#y(ms / this.mostMs)];
      if (before === null || bar.at - before > this.data.length_ms) c.moveTo(point[0] - 1, point[1]);
      c.lineTo(...point);
      before = bar.at;
    }
    c.stroke();
    c.setLineDash([]);
    c.lineWidth = 1;
  }
}

if (root && found) new Chart(JSON.parse(found.textContent));
