"""What the replay shows of a run, held against what the live page showed as it ran (observer.js)."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Page, expect

from prover.states import Transition
from tests.browser import Site

from . import observing

MOST = 6  # moments that are looked at
CARDS = """() => {
  const words = (root, name) => {
    const node = root.querySelector(`.${name}`);
    return node === null || node.closest("[hidden]") ? null : node.textContent;
  };
  const root = document.getElementById("live");
  return {
    cards: [...root.querySelectorAll(".card.worker")].map((node) => ({
      worker: node.dataset.worker, state: node.dataset.state, name: words(node, "name"), badge: words(node, "badge"),
      kind: words(node, "kind"), partition: words(node, "partition"), phase: words(node, "phase"),
    })),
    jobs: [...root.querySelectorAll(".card.job")].map((node) => ({
      id: node.dataset.job, badge: words(node, "badge"), progress: words(node, "progress"),
      names: [...node.querySelectorAll(".tl-names > div")].map((n) => n.textContent),
      states: [...node.querySelectorAll(".tl-notes > div")].map((n) => n.dataset.state),
    })),
  };
}"""


def assert_same_cards(page: Page, served: Site) -> None:
    """Of the moments at which the live page had read all that had happened, some are replayed."""
    log, samples = observing.event_log(served.database), observing.observed(page)
    found = list(_moments(samples, log))
    assert len(found) > 5, "the live page was hardly ever up to date"
    for at_us, sample in found[:: -(-len(found) // MOST)]:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
        page.goto(f"{served.url}replay/?at={at:%Y-%m-%dT%H:%M:%S.%f}")
        expect(page.locator("#data-age")).to_have_text("replay")
        shown = page.evaluate(CARDS)
        for part in ("cards", "jobs"):
            expected = [{key: seen[key] for key in shown[part][n]} for n, seen in enumerate(sample[part])]
            assert shown[part] == expected, f"{part} at {at}"


def _moments(
    samples: Sequence[Mapping[str, Any]], log: Sequence[Transition]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(time of the newest row that a sample has, sample), of those that have all rows until then; each time once."""
    times: dict[str, list[int]] = defaultdict(list)
    for t in sorted(log, key=lambda t: t.seq):
        times[t.session].append(max(t.at_us, times[t.session][-1] if times[t.session] else 0))
    latest: dict[int, Mapping[str, Any]] = {}
    known: dict[str, int] = {}  # of a session that the page has forgotten, what it had last
    for sample in samples:
        heads = {session: head for session, head in sample["heads"].items() if head}
        at_us = max(times[session][head - 1] for session, head in heads.items())
        known = known | heads
        stood = {session: bisect.bisect_right(of, at_us) for session, of in times.items()}
        if all(known.get(session, 0) == head for session, head in stood.items()) and not sample["stale"]:
            latest[at_us] = sample
    yield from latest.items()
