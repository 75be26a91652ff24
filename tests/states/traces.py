"""Traces for other folds: rows in the order of the log, and what must come out. The browser's fold is compared on each.

`python -m tests.states.traces FILE` writes them as JSON: a list of {name, rows, snapshot, workers}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prover.states import Entity, FleetState, Transition, fold
from tests.states.world import Universe, opening, play, search


def derived(state: FleetState) -> dict[str, dict[str, Any]]:
    """What a card shows of each worker."""
    return {
        worker: {
            "activity": state.activity(worker), "front": state.front(worker),
            "finalizing": list(state.finalizing(worker)), "busy_since_us": state.busy_since_us(worker),
        }
        for worker in sorted(state.views[Entity.WORKER])
    }  # fmt: skip


def trace(name: str, transitions: Iterable[Transition]) -> dict[str, Any]:
    """One trace: `rows` as they travel, `snapshot` and `workers` as they must be after the last row."""
    transitions = list(transitions)
    state = fold(transitions)
    rows = [t.to_row() for t in transitions]
    return {
        "name": name,
        "rows": rows,
        "snapshot": state.to_json(),
        "workers": derived(state),
        "gauges": state.gauges(),
    }


def search_traces(universe: Universe) -> Iterator[dict[str, Any]]:
    """Ways that together pass through every state of the exhaustive search."""
    for number, visit in enumerate(search(universe, play(opening()))):
        if not visit.leads_on:
            yield trace(f"search {number}", visit.trace)


def corpus() -> Iterator[dict[str, Any]]:
    """All traces: one partition with retry and crash, two partitions without, and deaths of threads."""
    yield from search_traces(Universe(attempts=2, partitions=1, crash=True, deaths=False))
    yield from search_traces(Universe(attempts=1, partitions=2, crash=False, deaths=False))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(list(corpus())))
