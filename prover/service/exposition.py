"""GET /metrics, by the conventions of Prometheus. What is there now is made anew for each scrape, from the state.

So the series of a worker that has gone end with it, and no gauge can stay behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from prover.filecoin.shapes import ProofKind
from prover.states import ATTEMPT_ENDS, JOB_ENDS, JOB_LEASED, Attempt, Entity, FleetState, Holding, Lifecycle

from .live import Live

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Present(Collector):
    """What is there now."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def describe(self) -> list[Metric]:
        """Nothing before the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Of this moment."""
        live, state, gauges = self._live, self._live.state(), self._live.gauges()
        yield _gauge("cuzk_info", "This prover.", {(live.prover, live.version): 1}, ["prover", "version"])
        yield _gauge("cuzk_uptime_seconds", "Since the start of the process.", {(): live.uptime_s})
        yield _gauge("cuzk_ready", "Whether it takes work.", {(): float(not live.reasons())})
        yield from _jobs(live, state)
        yield from _workers(state)
        yield from _memory(live, state, gauges)
        yield from _journal(gauges)


def exposition(live: Live) -> bytes:
    """The text that Prometheus reads."""
    return generate_latest(live.meters.registry)


def register(live: Live) -> None:
    """Show what is there now beside what is counted. Once a process."""
    live.meters.registry.register(Present(live))


def _jobs(live: Live, state: FleetState) -> Iterator[Metric]:
    waiting, jobs = live.depths(), list(state.views[Entity.JOB].values())
    running = Counter(view.detail.get("kind") for view in jobs if view.state in JOB_LEASED)
    late = sum(_is_late(view.detail.get("deadline_us"), live.now_us()) for view in jobs if view.state not in JOB_ENDS)
    kinds = [str(kind) for kind in ProofKind]
    depths = {(kind,): waiting.get(kind, 0) for kind in kinds}
    yield _gauge("cuzk_queue_depth", "Jobs that wait for any prover.", depths, ["kind"])
    held = {(kind,): running[kind] for kind in kinds}
    yield _gauge("cuzk_jobs_running", "Jobs that this prover has.", held, ["kind"])
    yield _gauge("cuzk_jobs_past_deadline", "Jobs of this prover whose deadline has passed.", {(): late})
    states = Counter(view.state for view in state.views[Entity.ATTEMPT].values())
    open_ = {(each.value,): states[each] for each in Attempt if each and each not in ATTEMPT_ENDS}
    yield _gauge("cuzk_attempts", "Attempts by their state.", open_, ["state"])


def _is_late(deadline_us: int | None, now_us: int) -> bool:
    return deadline_us is not None and deadline_us < now_us


def _workers(state: FleetState) -> Iterator[Metric]:
    """Those that are online; one series each, with its present activity as the label."""
    online = {key: view for key, view in state.views[Entity.WORKER].items() if view.state == Lifecycle.ONLINE}
    shown = {
        (key, str(view.detail.get("display")), str(view.detail.get("ordinal")), str(state.activity(key))): 1
        for key, view in online.items()
    }
    labels = ["worker", "display", "gpu", "activity"]
    yield _gauge("cuzk_worker_activity", "What each worker does; 1.", shown, labels)
    busy = {(key,): float(state.front(key) is not None) for key in online}
    yield _gauge("cuzk_worker_busy", "Whether the worker has an attempt in front.", busy, ["worker"])


def _memory(live: Live, state: FleetState, gauges: Mapping[str, float]) -> Iterator[Metric]:
    sizes = {
        (word,): gauges[f"{word}_bytes"] for word in ("rss", "memory_total", "memory_available")
    }  # fmt: skip
    yield _gauge("cuzk_memory_bytes", "Of the process (rss) and of the machine.", sizes, ["what"])
    budget = live.budget()
    parts = {
        ("total",): budget.total,
        ("reserved",): budget.used,
        ("keys",): budget.lasting,
        ("pinned",): budget.pinned,
    }
    yield _gauge("cuzk_memory_budget_bytes", "The memory budget.", parts, ["what"])
    yield _gauge("cuzk_memory_budget_waiting", "Claims that wait for memory.", {(): budget.waiting})
    devices = {}
    for device in live.devices:
        devices[device.info.id, "total"] = device.info.memory_total_bytes
        devices[device.info.id, "free"] = device.free_memory
    known = {key: size for key, size in devices.items() if size is not None}
    yield _gauge("cuzk_device_memory_bytes", "Of devices that have their own.", known, ["device", "what"])
    held = {
        (key.partition(":")[2],): view.detail["bytes"]
        for key, view in state.views[Entity.HOLDING].items()
        if view.state == Holding.READY and view.detail.get("bytes")
    }
    yield _gauge("cuzk_holding_bytes", "Of keys and tables that are loaded.", held, ["holding"])


def _journal(gauges: Mapping[str, object]) -> Iterator[Metric]:
    trouble = gauges["trouble"]
    shown = {(str(trouble),): 1.0} if trouble else {}
    yield _gauge("cuzk_journal_trouble", "Why nothing new is claimed; absent when all is well.", shown, ["code"])
    yield _gauge(
        "cuzk_journal_waiting_records", "Not confirmed by the database.", {(): _number(gauges, "journal_waiting")}
    )
    spent = CounterMetricFamily("cuzk_tracker_seconds", "What tracking cost in this session.")
    spent.add_metric([], _number(gauges, "tracker_ms") / 1000)
    yield spent


def _number(gauges: Mapping[str, object], name: str) -> float:
    value = gauges.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _gauge(name: str, text: str, values: Mapping[Any, float], labels: list[str] | None = None) -> Metric:
    found = GaugeMetricFamily(name, text, labels=labels or [])
    for key, value in values.items():
        found.add_metric(list(key), value)
    return found
