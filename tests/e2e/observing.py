"""What a page showed, held against the event log at the same seq; the event log, held against what really happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from prover.pipeline.devices import Observation
from prover.states import ATTEMPT_ENDS, FRONT, JOB_ENDS, Attempt, Entity, FleetState, Transition, View, apply
from tests.postgres import Database

SCRIPT = Path(__file__).with_name("observer.js").read_text()
KINDS = {
    "porep-c2": "PoRep C2", "snap-update": "SnapDeals", "window-post": "WindowPoSt", "winning-post": "WinningPoSt",
}  # fmt: skip
PHASES = {
    "claimed": "prep", "device_wait": "waiting device", "device": "device", "synthesizing": "synthesis",
    "ready": "ready", "finishing": "finishing",
}  # fmt: skip
_LOG = """
SELECT session_id::text, seq, (extract(epoch FROM at) * 1000000)::bigint, mono_ns, entity, entity_id, old, new,
       job::text, partition, attempt_no, worker, reason, detail
FROM transition ORDER BY at, session_id, seq
"""


def observe(page: Page) -> None:
    """Begin to record a live page. Before the jobs that shall be seen."""
    page.evaluate(SCRIPT)


def observed(page: Page) -> list[dict[str, Any]]:
    """What was seen until now: samples that differ, in order."""
    found = page.evaluate("window.observed")
    assert found["looks"] >= len(found["samples"]) > 0
    return found["samples"]


def event_log(database: Database) -> list[Transition]:
    """All transitions, as the database has them."""
    with database.connect() as connection:
        return [Transition.from_row(row) for row in connection.execute(_LOG).fetchall()]


def assert_page_is_right(page: Page, database: Database) -> None:
    """At each sample: cards, waterfalls and counters are the fold of the log at the page's seq, and each other's."""
    samples, log = observed(page), event_log(database)
    assert len(samples) > 5, "the page hardly moved: nothing was observed"
    for sample, state in zip(samples, states_at(samples, log), strict=True):
        assert not wrong(sample, state), sample["heads"]
        assert not list(disagreements(sample)), sample["heads"]


def assert_log_is_true(database: Database, truth: Sequence[Observation], attempts: int) -> None:
    """No attempt is said to be at work when it is not, none is at work unsaid, on workers and on devices."""
    verdict = judge(event_log(database), truth)
    assert (verdict.false_busy, verdict.false_idle) == ([], [])
    assert verdict.attempts == attempts
    share = verdict.edges_ms / verdict.busy_ms
    print(f"workers busy for {verdict.busy_ms:.0f} ms; {share:.3%} of that between a thing and its statement")


def states_at(samples: Sequence[Mapping[str, Any]], log: Sequence[Transition]) -> Iterator[FleetState]:
    """The fold of the log up to each sample's heads, one after another."""
    by_session: dict[str, list[Transition]] = defaultdict(list)
    for t in log:
        by_session[t.session].append(t)
    state, done = FleetState(), Counter[str]()
    for sample in samples:
        for session, head in sample["heads"].items():
            assert head >= done[session], "the page went back"
            for t in by_session[session][done[session] : head]:
                apply(state, t)
            done[session] = head
        yield state


# -- the page against the log ---------------------------------------------------------------------------------------


def wrong(sample: Mapping[str, Any], state: FleetState) -> list[str]:
    """Everything that a sample shows otherwise than the fold at its heads has it; nothing when the page is right."""
    found = [*_wrong_cards(sample, state), *_wrong_jobs(sample, state), *_wrong_gantt(sample, state)]
    return [*found, *_wrong_counters(sample, state)]


def _compare(what: str, shown: Any, true: Any) -> Iterator[str]:
    if shown != true:
        yield f"{what}: shown {shown!r}, by the log {true!r}"


def _name(view: View, job: View) -> str:
    name = f"P{(view.partition or 0) + job.detail.get('partition_index', 0)}"
    return name if view.attempt_no == 1 else f"{name} ×{view.attempt_no}"


def _attempt_name(state: FleetState, attempt: str) -> str:
    view = state.get(Entity.ATTEMPT, attempt)
    return _name(view, state.get(Entity.JOB, view.job or ""))


def _wrong_cards(sample: Mapping[str, Any], state: FleetState) -> Iterator[str]:
    cards = {card["worker"]: card for card in sample["cards"]}
    yield from _compare("workers", sorted(cards), sorted(state.views[Entity.WORKER]))
    for worker, card in cards.items():
        true = card_of(state, worker)
        yield from _compare(worker, {key: card[key] for key in true}, true)


def card_of(state: FleetState, worker: str) -> dict[str, Any]:
    """What the worker's card must read."""
    view, activity = state.get(Entity.WORKER, worker), state.activity(worker)
    tails = [_attempt_name(state, tail) for tail in state.finalizing(worker)]
    front = state.front(worker)
    line = dict.fromkeys(("kind", "partition", "phase", "label"))
    if front is not None:
        attempt = state.get(Entity.ATTEMPT, front)
        job = state.get(Entity.JOB, attempt.job or "")
        line = {
            "kind": KINDS[job.detail["kind"]], "partition": _name(attempt, job), "phase": PHASES[attempt.state],
            "label": job.detail["request_id"],
        }  # fmt: skip
    more = f" (+{len(tails) - 1})" if len(tails) > 1 else ""
    tail = f"finalizing: {tails[0]}{more}" if tails else None
    name = f"W{view.detail['display']}"
    return {"state": activity, "badge": activity.replace("_", " "), "name": name, "tail": tail, **line}


def _wrong_jobs(sample: Mapping[str, Any], state: FleetState) -> Iterator[str]:
    holding = {state.get(Entity.ATTEMPT, key).job for held in state.held.values() for key in held}
    open_jobs = {key for key, view in state.views[Entity.JOB].items() if view.state not in JOB_ENDS or key in holding}
    shown = {job["id"]: job for job in sample["jobs"]}
    if open_jobs:
        yield from _compare("open jobs", set(shown), open_jobs)
    for key, job in shown.items():
        view = state.get(Entity.JOB, key)
        rows = _rows(state, key)
        done = sum(attempt.state == Attempt.DONE for _, attempt in state.attempts(key))
        yield from _compare(f"{key} badge", job["badge"], view.state.replace("_", " "))
        yield from _compare(f"{key} label", job["label"], view.detail["request_id"])
        yield from _compare(f"{key} progress", job["progress"], f"{done} / {view.detail['partitions']} done")
        yield from _compare(f"{key} names", job["names"], [row["name"] for row in rows])
        yield from _compare(f"{key} states", job["states"], [row["state"] for row in rows])
        drawn = [{key: row[key] for key in rows[0]} for row in job["plot"]["rows"]] if rows else job["plot"]["rows"]
        yield from _compare(f"{key} waterfall", drawn, rows)


def _rows(state: FleetState, job_id: str) -> list[dict[str, Any]]:
    """The rows of a job's waterfall, bars included."""
    job = state.get(Entity.JOB, job_id)
    attempts = sorted(state.attempts(job_id), key=lambda item: (item[1].partition, item[1].attempt_no))
    waiting = [(key, view) for key, view in attempts if view.state == Attempt.PENDING and view.attempt_no == 1]
    rows = [_row(state, job, key, view) for key, view in attempts if (key, view) not in waiting]
    if waiting:
        name = _name(waiting[0][1], job) if len(waiting) == 1 else f"+{len(waiting)}"
        since = min(view.times["pending"] / 1000 for _, view in waiting)
        rows.append({"name": name, "state": "pending", "ends": [], "bars": [["waiting", "pending", since, None, 0]]})
    return rows


def _row(state: FleetState, job: View, key: str, view: View) -> dict[str, Any]:
    ended = view.state in ATTEMPT_ENDS
    return {
        "name": _name(view, job), "state": view.state,
        "ends": [[view.since_us / 1000, view.state]] if ended else [],
        "bars": [[f"{key} {name}", name, start, end, 0] for name, start, end in _phases(view)],
    }  # fmt: skip


_ORDER = [str(word) for word in Attempt]


def _phases(view: View) -> list[tuple[str, float, float | None]]:
    """(state, from, to) in milliseconds, in time order; `to` is None while it lasts."""
    moments = sorted(((us / 1000, _ORDER.index(name), name) for name, us in view.times.items()))
    ends = [at for at, _, _ in moments[1:]] + [None]
    return [(name, at, end) for (at, _, name), end in zip(moments, ends, strict=True) if name not in ATTEMPT_ENDS]


def _wrong_gantt(sample: Mapping[str, Any], state: FleetState) -> Iterator[str]:
    """Every bar of a worker is a phase of an attempt that it held, and none that is in view is missing."""
    rows = {row["key"]: row["bars"] for row in sample["gantt"]["rows"]}
    yield from _compare("rows of the gantt", sorted(rows), sorted(state.views[Entity.WORKER]))
    true: dict[str, list[list[Any]]] = defaultdict(list)
    for key, view in state.views[Entity.ATTEMPT].items():
        if view.worker is not None:
            true[view.worker] += _held(key, view)
    for worker, bars in rows.items():
        yield from (f"{worker}: a bar that the log does not have: {bar}" for bar in bars if bar not in true[worker])
        in_view = [bar for bar in true[worker] if bar[3] is None or bar[3] >= sample["gantt"]["from"]]
        yield from (f"{worker}: a bar is missing: {bar}" for bar in in_view if bar not in bars)
        fronts = [bar[0] for bar in bars if bar[3] is None and bar[4] == 0]
        front = state.front(worker)
        doing = [] if front is None else [f"{front} {state.get(Entity.ATTEMPT, front).state}"]
        yield from _compare(f"{worker}: lasting bars", fronts, doing)


def _held(key: str, view: View) -> Iterator[list[Any]]:
    claimed = view.times.get("claimed", 0) / 1000
    for name, start, end in _phases(view):
        if start >= claimed and (name in FRONT or name == Attempt.FINALIZING):
            yield [f"{key} {name}", name, start, end, int(name == Attempt.FINALIZING)]


def _wrong_counters(sample: Mapping[str, Any], state: FleetState) -> Iterator[str]:
    gauges = state.gauges()
    ended = {word: sum(n for key, n in state.ended.items() if key.endswith(f" {word}")) for word in JOB_ENDS}
    true = {
        "Done": ended["done"], "Failed": ended["failed"], "Cancelled": ended["cancelled"],
        "Queue": gauges["queue_depth"], "Synthesis": gauges["synth_active"], "Devices": gauges["gpu_active"],
        "Finalizing": gauges["finalizing"],
    }  # fmt: skip
    yield from _compare("counters", {name: int(sample["counters"][name]) for name in true}, true)


def disagreements(sample: Mapping[str, Any]) -> Iterator[str]:
    """Where cards and waterfalls of one sample contradict each other, whatever the log says."""
    rows = {row["title"]: row["state"] for job in sample["jobs"] for row in job["plot"]["rows"]}
    at_work = Counter(
        (name.partition(":")[0].rpartition(" on ")[2], name.partition(" on ")[0])
        for name, state in rows.items() if " on " in name and state in FRONT
    )  # fmt: skip
    cards = Counter((c["name"], c["partition"]) for c in sample["cards"] if c["state"] == "proving")
    yield from _compare("cards and waterfalls: who proves what", dict(cards), dict(at_work))


# -- the log against the truth --------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """How an event log stands to what was recorded outside the tracker; times in milliseconds."""

    false_busy: list[str] = field(default_factory=list)
    false_idle: list[str] = field(default_factory=list)
    busy_ms: float = 0.0  # of all workers, in truth
    edges_ms: float = 0.0  # in truth busy, and not yet, or no longer, said to be: between two neighbouring statements
    attempts: int = 0


@dataclass(frozen=True)
class Span:
    """From `start` to `end` in monotonic nanoseconds."""

    start: int
    end: int

    def holds(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


def judge(log: Sequence[Transition], truth: Sequence[Observation]) -> Verdict:
    """A worker is in truth busy with an attempt from taking it to letting it go; a device, while its lock is held.

    The log may say so only within that (else false busy), and for each there must be one such statement (else false
    idle): what the log says of a worker or device can then differ from truth only in the moments between the call that
    reports a thing and the thing itself, which are summed as edges.
    """
    verdict = Verdict()
    said_busy, said_device = _said(log)
    for what, said in (("worker", said_busy), ("device", said_device)):
        true = _true(truth, *_WORDS[what])
        for key, span in said.items():
            if not any(other.holds(span) for other in true.get(key, ())):
                verdict.false_busy.append(f"{what} {key}: said {span}, in truth {true.get(key)}")
        for key in true.keys() - said.keys():
            verdict.false_idle.append(f"{what} {key}: busy in truth, never said")
    for key, spans in _true(truth, *_WORDS["worker"]).items():
        verdict.attempts += 1
        busy = sum(span.end - span.start for span in spans)
        said = said_busy.get(key)
        verdict.busy_ms += busy / 1e6
        verdict.edges_ms += (busy - (said.end - said.start if said else 0)) / 1e6
    return verdict


_WORDS = {"worker": ("worker_busy", "worker_free"), "device": ("device_acquired", "device_released")}


def _said(log: Sequence[Transition]) -> tuple[dict[tuple[str, str], Span], dict[tuple[str, str], Span]]:
    """(worker, attempt) -> when it was the worker's front; (device, attempt) -> when it was on the device."""
    workers, devices = {}, {}
    attempts: dict[str, list[Transition]] = defaultdict(list)
    for t in log:
        if t.entity is Entity.ATTEMPT:
            attempts[t.entity_id].append(t)
    for name, moves in attempts.items():
        moves.sort(key=lambda t: t.seq)
        moments = [(t.new, t.mono_ns) for t in moves]
        worker = moves[-1].worker
        front = _span(moments, FRONT, since="claimed")
        if worker is not None and front is not None:
            workers[worker, name] = front
            device = _span(moments, {Attempt.DEVICE}, since="device")
            if device is not None:
                devices[worker.rpartition("/")[0], name] = device
    return workers, devices


def _span(moments: Sequence[tuple[str, int]], states: Any, since: str) -> Span | None:
    """From the entry of `since` to the first state after it that is not one of `states`."""
    start = next((at for name, at in moments if name == since), None)
    if start is None:
        return None
    end = next((at for name, at in moments if at >= start and name not in states), None)
    assert end is not None, "it has not ended"
    return Span(start, end)


def _true(truth: Sequence[Observation], begins: str, ends: str) -> dict[tuple[str, str], list[Span]]:
    open_since: dict[tuple[str, str], int] = {}
    spans: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for o in truth:
        if o.what == begins:
            open_since[o.where, o.attempt] = o.mono_ns
        elif o.what == ends:
            spans[o.where, o.attempt].append(Span(open_since.pop((o.where, o.attempt)), o.mono_ns))
    assert not open_since, f"still {begins}: {open_since}"
    return spans
