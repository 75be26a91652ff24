"""The status of one prover in the original daemon's shape (GET /status): what its panel and scripts read.

The original's words come first; ours stand beside them under keys of their own: on top `version`, `session`, `seq` (of
the last move of the session that is shown) and `generated_at`; further down `phase`, `finalizing`, `admin`,
`lifecycle`, `activity`, `job`, `partition_index`, `heartbeat_age_secs`, `journal` (its `trouble` says why nothing new
is claimed). All of it stands in an order that stays. Partitions count from 0 within the job; `partition_index` is the
one of the deadline that 0 stands for, and people are shown the sum. Absent values are null. Durations that still run
are counted up to `now_us`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from prover.filecoin.circuit_ids import id_of_key
from prover.pipeline.jobs import RESULT_ARRIVED
from prover.states import ATTEMPT_ENDS, JOB_LEASED, Attempt, Entity, FleetState, Job, View

_WAITING = frozenset({Attempt.ABSENT, Attempt.PENDING, Attempt.RESERVED})
_ON_WORKER = frozenset({Attempt.CLAIMED, Attempt.DEVICE_WAIT, Attempt.DEVICE, Attempt.FINALIZING, Attempt.FINISHING})
_WORDS: Mapping[str, str] = {
    **dict.fromkeys(_WAITING, "pending"), Attempt.SYNTHESIZING: "synthesizing", Attempt.READY: "synth_done",
    **dict.fromkeys(_ON_WORKER, "gpu"), Attempt.DONE: "done",
}  # fmt: skip
_ENDS = tuple(ATTEMPT_ENDS)
_KINDS_ENDED = {"completed": Job.DONE, "failed": Job.FAILED}


@dataclass(frozen=True, slots=True)
class Moment:
    """The fleet at `now_us`, seen for one session; `gauges` are its last sample, the heartbeat's age is in seconds.

    `counts`: the jobs that ended, by "completed" or "failed" and by kind; None: those of all provers on the database.
    """

    state: FleetState
    session: str
    now_us: int
    gauges: Mapping[str, Any]
    heartbeat_age: float | None = None
    counts: Mapping[str, Mapping[str, int]] | None = None

    def views(self, entity: Entity) -> Iterator[tuple[str, View]]:
        """What this session has moved last."""
        return ((key, view) for key, view in self.state.views[entity].items() if view.session == self.session)

    def seconds_since(self, us: int | None) -> float | None:
        """Seconds between then and now."""
        return None if us is None else max(0, self.now_us - us) / 1e6


def status(moment: Moment) -> dict[str, Any]:
    """The JSON object of GET /status."""
    session = moment.state.get(Entity.SESSION, moment.session)
    attempts = moment.state.views[Entity.ATTEMPT].values()
    count = Counter([view.state for view in attempts if view.session == moment.session])
    return {
        "version": session.detail.get("version"),
        "session": moment.session,
        "seq": moment.state.heads.get(moment.session, 0),
        "generated_at": datetime.fromtimestamp(moment.now_us / 1e6, UTC).isoformat(timespec="milliseconds"),
        "prover": session.detail.get("prover"),
        "lifecycle": session.state,
        "heartbeat_age_secs": moment.heartbeat_age,
        "local_keys": session.detail.get("local_keys"),
        "uptime_secs": moment.seconds_since(session.times.get("starting")) or 0.0,
        "memory": _memory(moment.gauges),
        "synthesis": {
            "max_concurrent": session.detail.get("max_parallel_synthesis"),
            "active": count[Attempt.SYNTHESIZING],
        },
        "pipelines": list(_pipelines(moment)),
        "gpu_workers": sorted(_workers(moment), key=lambda worker: worker["worker_id"]),
        "allocations": {"srs": _holdings(moment, "key:"), "pce": _holdings(moment, "program:")},
        "counters": _counters(moment),
        "journal": {
            "trouble": moment.gauges.get("trouble"),
            "records_waiting": moment.gauges.get("journal_waiting"),
        },
        "buffers": {
            "synth_in_flight": count[Attempt.SYNTHESIZING],
            "provers_in_flight": count[Attempt.READY] + sum(count[state] for state in _ON_WORKER),
            "aux_in_flight": count[Attempt.FINALIZING],
            "shells_in_flight": count[Attempt.FINALIZING],
            "pending_handles": count[Attempt.FINALIZING] + count[Attempt.FINISHING],
        },
    }


def _memory(gauges: Mapping[str, Any]) -> dict[str, int | None]:
    """The budget, as in the original: what is reserved is used. Beside it what the process has, and what the machine
    (or the container) has and has left."""
    total, used = gauges.get("memory_budget_bytes"), gauges.get("memory_reserved_bytes")
    return {
        "total_bytes": total, "used_bytes": used,
        "available_bytes": None if total is None or used is None else max(0, total - used),
        "rss_bytes": gauges.get("rss_bytes"), "machine_total_bytes": gauges.get("memory_total_bytes"),
        "machine_available_bytes": gauges.get("memory_available_bytes"),
    }  # fmt: skip


def original_word(state: str) -> str:
    """The original's word for the state of an attempt."""
    return _WORDS.get(state, "failed")


def _pipelines(moment: Moment) -> Iterator[dict[str, Any]]:
    """The jobs that this session has taken up, in the order in which it did."""
    leased = [
        (job.times.get(Job.LOADING, 0), key, job)
        for key, job in moment.views(Entity.JOB) if job.state in JOB_LEASED
    ]  # fmt: skip
    for since, key, job in sorted(leased, key=itemgetter(0, 1)):
        partitions = [_partition(moment, key, n) for n in range(job.detail.get("partitions", 0))]
        yield {
            "job_id": job.detail.get("request_id"),
            "job": key,
            "phase": job.state,
            "proof_kind": job.detail.get("kind"),
            "started_secs_ago": moment.seconds_since(since),
            "partition_index": job.detail.get("partition_index", 0),
            "total_partitions": len(partitions),
            "partitions_done": sum(partition["state"] == "done" for partition in partitions),
            "partitions": partitions,
        }


def _partition(moment: Moment, job: str, number: int) -> dict[str, Any]:
    """A partition shows its latest attempt."""
    attempt_no = moment.state.latest.get(f"{job}:{number}", 0)
    view = moment.state.get(Entity.ATTEMPT, f"{job}:{number}:{attempt_no}")
    return {
        "index": number,
        "state": "done" if view.reason == RESULT_ARRIVED else original_word(view.state),
        "phase": view.state or None,
        "attempt": attempt_no,
        "synth_ms": _took_ms(moment, view.times, Attempt.SYNTHESIZING, Attempt.READY, *_ENDS),
        "gpu_ms": _took_ms(moment, view.times, Attempt.CLAIMED, *_ENDS),
    }


def _took_ms(moment: Moment, times: Mapping[str, int], start: Attempt, *ends: Attempt) -> int | None:
    """Whole milliseconds from `start` to the first of `ends` that was entered, or to now; None before the start."""
    begun = times.get(start)
    if begun is None:
        return None
    return (next((times[end] for end in ends if end in times), moment.now_us) - begun) // 1000


def _workers(moment: Moment) -> Iterator[dict[str, Any]]:
    for key, worker in moment.views(Entity.WORKER):
        state = moment.state
        front = state.front(key)
        attempt = state.get(Entity.ATTEMPT, front) if front else View()
        job = state.get(Entity.JOB, attempt.job) if attempt.job else View()
        yield {
            "worker_id": worker.detail.get("display", 0),
            "gpu_ordinal": worker.detail.get("ordinal", 0),
            "state": "proving" if front else "idle",
            "current_job": job.detail.get("request_id", attempt.job),
            "current_partition": attempt.partition,
            "partition_index": job.detail.get("partition_index", 0) if front else None,
            "busy_secs": moment.seconds_since(state.busy_since_us(key)),
            "id": key,
            "phase": attempt.state or None,
            "finalizing": list(state.finalizing(key)),
            "activity": str(state.activity(key)),
            "admin": str(state.admin(key)),
            "lifecycle": worker.state,
        }


def _holdings(moment: Moment, kind: str) -> list[dict[str, Any]]:
    """Keys, or compiled programs, that were loaded; the last sample says how they are used."""
    return [
        {
            "circuit_id": _circuit(key, view),
            "name": view.detail.get("name"),
            "bytes": view.detail.get("bytes"),
            "last_used_secs_ago": _sampled(moment, key).get("idle_secs"),
            "evictable": bool(_sampled(moment, key).get("evictable")),
            "ref_count": _sampled(moment, key).get("refs"),
            "pinned": _sampled(moment, key).get("pinned"),
            "phase": view.state,
            "device": view.detail.get("device"),
        }
        for key, view in sorted(moment.views(Entity.HOLDING))
        if f":{kind}" in key
    ]


def _sampled(moment: Moment, holding: str) -> Mapping[str, Any]:
    """What the last sample says of the key that a holding (prover:key:NAME@PLACE) is of."""
    name = holding.rpartition(":")[2].partition("@")[0]
    found: Mapping[str, Any] = next((key for key in moment.gauges.get("keys", ()) if key["name"] == name), {})
    return found


def _circuit(holding: str, view: View) -> str | None:
    """The original's name of the circuit, where the holding is named for its key; else what it is called here."""
    label = holding.split(":", 2)[-1].partition("@")[0]
    return id_of_key(label) or view.detail.get("name")


def _counters(moment: Moment) -> dict[str, Any]:
    """Jobs that have ended, by kind."""
    found: dict[str, Any] = {}
    for word in _KINDS_ENDED:
        by_kind = _ended_on_database(moment, word) if moment.counts is None else moment.counts[word]
        found[f"total_{word}"] = sum(by_kind.values())
        found[f"{word}_by_kind"] = dict(sorted(by_kind.items()))
    depth = moment.gauges.get("queue_depth") if moment.counts is not None else None
    return {**found, "queue_depth": moment.state.gauges()["queue_depth"] if depth is None else depth}


def _ended_on_database(moment: Moment, word: str) -> dict[str, int]:
    """By the counters that are kept with all provers' jobs."""
    end = f" {_KINDS_ENDED[word]}"
    return {key.removesuffix(end): count for key, count in moment.state.ended.items() if key.endswith(end)}
