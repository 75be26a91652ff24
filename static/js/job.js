// The waterfall of the job page: from the views that came with the page, and live until the job and all that ran for it have ended.

import { jobRows } from "./bars.js";
import { Connection } from "./connection.js";
import { ATTEMPT_ENDS, fromJson, get, JOB_ENDS, since } from "./fold.js";
import { niceSpan, Timeline } from "./timeline.js";

const root = document.getElementById("waterfall");
const embedded = fromJson(JSON.parse(document.getElementById("job-views").textContent));
const [id] = embedded.views.job.keys();
const timeline = new Timeline(root, { label: "Partitions of the job over time", relative: true });

/** 0: open; 1: ended, but what was on a device or a tail still runs out; 2: over. */
function stage(state) {
  if (!JOB_ENDS.has(get(state, "job", id).state)) return 0;
  return [...state.views.attempt.values()].some((view) => view.job === id && !ATTEMPT_ENDS.has(view.state)) ? 1 : 2;
}

function draw(state, now) {
  const rows = jobRows(state, id);
  root.hidden = rows.length === 0;
  const over = stage(state) === 2;
  const from = Math.min(now, ...rows.flatMap((row) => row.bars.slice(0, 1).map((bar) => bar.from)));
  timeline.set(rows, from, over ? now + 0.02 * (now - from) + 100 : from + niceSpan(now - from), now);
  timeline.describe(now);
  timeline.draw(now);
}

document.addEventListener("themechange", () => timeline.themeChanged());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.themeChanged());
const first = get(embedded, "job", id);
draw(embedded, Math.max(since(first), ...[...embedded.views.attempt.values()].map(since)) / 1000);

const begun = stage(embedded);
if (begun < 2) {
  const socket = new URL(root.dataset.socket, location.href);
  socket.protocol = socket.protocol.replace("http", "ws");
  const connection = new Connection(socket.href, root.dataset.snapshot);
  connection.start(null);
  setInterval(() => {
    const { state } = connection;
    if (document.hidden || state === null || connection.stale || !state.views.job.has(id)) return;
    if (stage(state) > begun) location.reload(); // the result, the timings, the events
    else draw(state, connection.clock.now());
  }, 250);
}
