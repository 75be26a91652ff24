// Records what the live page shows, each time that the page changes: cards, job cards, counters, and the rows that its
// timelines draw, together with the seq up to which the page says that it has followed the log. The observer runs after
// each task that changed the page, so what it sees is what is painted. Only what differs from the last sample is kept.

async () => {
  const TIMER = /(?<=\S) (\d+ms|\d+\.\ds|\d+m \d\ds)/;
  const { Timeline } = await import("/static/js/timeline.js");
  const set = Timeline.prototype.set;
  Timeline.prototype.set = function (rows, from, ...rest) {
    this.root.observed = { rows, from };
    return set.call(this, rows, from, ...rest);
  };
  const drawn = (node) => {
    const { rows, from } = node?.observed ?? { rows: [], from: 0 };
    return {
      from,
      rows: rows.map(({ key, name, title, state, bars, ends }) => ({
        key, name, title, state: state ?? null, ends: (ends ?? []).map(({ at, state }) => [at, state]),
        bars: bars.map(({ id, state, from, to, lane }) => [id, state, from, to, lane ?? 0]),
      })),
    };
  };
  const words = (root, name) => {
    const node = root.querySelector(`.${name}`);
    return node === null || node.hidden || node.closest("[hidden]") ? null : node.textContent;
  };
  const card = (node) => ({
    worker: node.dataset.worker, state: node.dataset.state, fresh: node.dataset.fresh, name: words(node, "name"),
    badge: words(node, "badge"), kind: words(node, "kind"), partition: words(node, "partition"), phase: words(node, "phase"),
    label: node.querySelector(".worker-front .label").closest("[hidden]") ? null : node.querySelector(".worker-front .label").title,
    tail: words(node, "worker-tail")?.replace(TIMER, "") ?? null,
  });
  const job = (node) => ({
    id: node.dataset.job, badge: words(node, "badge"), progress: words(node, "progress"),
    label: node.querySelector("a.label").title, plot: drawn(node.querySelector(".plot")),
    names: [...node.querySelectorAll(".tl-names > div")].map((n) => n.textContent),
    states: [...node.querySelectorAll(".tl-notes > div")].map((n) => n.dataset.state),
  });
  const root = document.getElementById("live");
  const look = () => ({
    heads: JSON.parse(root.dataset.seq ?? "{}"), stale: root.classList.contains("stale"),
    cards: [...root.querySelectorAll(".card.worker")].map(card), jobs: [...root.querySelectorAll(".card.job")].map(job),
    counters: Object.fromEntries([...root.querySelectorAll(".counter")].map((n) => [words(n, "name"), words(n, "value")])),
    gantt: drawn(document.getElementById("gantt")),
  });
  const seen = (window.observed = { looks: 0, samples: [] });
  let last = "";
  const sample = () => {
    if (!document.getElementById("gantt").observed) return; // not drawn since we look
    seen.looks += 1;
    const now = look();
    const { gantt, ...rest } = now;
    const text = JSON.stringify([rest, gantt.rows]);
    if (text === last) return;
    last = text;
    seen.samples.push({ ...now, at: performance.now() });
  };
  new MutationObserver(sample).observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
}
