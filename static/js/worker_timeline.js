// What each worker did in a period, drawn as on the live page.

import { workerRows } from "./bars.js";
import { fromJson } from "./fold.js";
import { Timeline } from "./timeline.js";

const root = document.getElementById("worker-timeline");

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

if (root) {
  const { from, to } = read("worker-span");
  const timeline = new Timeline(root, { label: "What each worker did over time", rowHeight: 30 });
  timeline.set(workerRows(fromJson(read("worker-views")), from), from, to, to);
  timeline.describe(to);
  timeline.draw(to);
  document.addEventListener("themechange", () => timeline.themeChanged());
  document.addEventListener("zonechange", () => timeline.draw(to));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.themeChanged());
}
