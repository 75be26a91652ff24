// The waterfall of the job page: from the views that came with the page, and live while the job is open.

import { jobRows } from "./bars.js";
import { Connection } from "./connection.js";
import { fromJson, get, JOB_ENDS, since } from "./fold.js";
import { niceSpan, Timeline } from "./timeline.js";

const root = document.getElementById("waterfall");
const embedded = fromJson(JSON.parse(document.getElementById("job-views").textContent));
const [id] = embedded.views.job.keys();
const timeline = new Timeline(root, { label: "Partitions of the job over time", relative: true });

function draw(state, now) {
  const rows = jobRows(state, id);
  root.hidden = rows.length === 0;
  const job = get(state, "job", id);
  const over = JOB_ENDS.has(job.state);
  const from = Math.min(now, ...rows.flatMap((row) => row.bars.slice(0, 1).map((bar) => bar.from)));
  timeline.set(rows, from, over ? now + 0.02 * (now - from) + 100 : from + niceSpan(now - from), now);
  timeline.describe(now);
  timeline.draw(now);
}

document.addEventListener("themechange", () => timeline.themeChanged());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.themeChanged());
const first = get(embedded, "job", id);
draw(embedded, Math.max(since(first), ...[...embedded.views.attempt.values()].map(since)) / 1000);

if (!JOB_ENDS.has(first.state)) {
  const socket = new URL(root.dataset.socket, location.href);
  socket.protocol = socket.protocol.replace("http", "ws");
  const connection = new Connection(socket.href, root.dataset.snapshot);
  connection.start(null);
  setInterval(() => {
    const { state } = connection;
    if (document.hidden || state === null || connection.stale || !state.views.job.has(id)) return;
    if (JOB_ENDS.has(get(state, "job", id).state)) location.reload(); // the result, the timings, the events
    else draw(state, connection.clock.now());
  }, 250);
}
