"""Writes a story's transitions to the tables, as a journal does: rows, the state they lead to, heads, one NOTIFY."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg

from prover.states import FRONT, JOB_ENDS, FleetState, Transition, View, apply

from .story import SITE


def at(us: int | None) -> datetime | None:
    return None if us is None else datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)


def mirror(view: View) -> dict[str, Any]:
    """The columns that every state table has."""
    return {
        "state": view.state, "state_at": at(view.since_us), "times": dict(view.times), "reason": view.reason,
        "detail": dict(view.detail), "moved_by": view.session, "moved_seq": view.seq,
    }  # fmt: skip


class Writer:
    """Keeps its own fold, and mirrors it into the state tables."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.state = FleetState()

    def write(self, transitions: Sequence[Transition]) -> None:
        """One batch, one transaction."""
        with self.connection.transaction():
            self._sessions(transitions)
            for t in transitions:
                apply(self.state, t)
            self._log(transitions)
            touched = dict.fromkeys((t.entity, t.entity_id) for t in transitions)
            # what leaves a worker's front before what takes it
            for entity, key in sorted(touched, key=lambda thing: self.state.get(*thing).state in FRONT):
                getattr(self, f"_{entity.value}")(key, self.state.get(entity, key))
            self._counters()
            self.connection.execute("NOTIFY cuzk")

    def beat(self, session: str, gauges: dict[str, Any] | None = None) -> None:
        """A heartbeat and a tick of the engine, now; and a sample."""
        moment = "heartbeat_at = clock_timestamp(), tick_at = clock_timestamp()"
        lease = "lease_until = clock_timestamp() + lease_length()"
        self.connection.execute(f"UPDATE session SET {moment}, {lease} WHERE id = %s", [session])
        if gauges is not None:
            values = [session, json.dumps(gauges)]
            self.connection.execute(
                "INSERT INTO sample (session_id, at, gauges) VALUES (%s, clock_timestamp(), %s)", values
            )

    def _sessions(self, transitions: Sequence[Transition]) -> None:
        """Sessions exist before their rows; their heads move with them."""
        highest: dict[str, Transition] = {t.session: t for t in transitions}
        for session, t in highest.items():
            prover = "site" if session == SITE else str(t.detail.get("prover", "?"))
            self.connection.execute(
                """INSERT INTO session (id, prover, state, state_at, started_at, head_seq, host, version, machine,
                detail, times, moved_seq) VALUES (%s, %s, 'online', %s, %s, %s, '', '', '', '{}', '{}', 0)
                ON CONFLICT (id) DO UPDATE SET head_seq = excluded.head_seq""",
                [session, prover, at(t.at_us), at(t.at_us), t.seq],
            )

    def _log(self, transitions: Sequence[Transition]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO transition (session_id, seq, at, mono_ns, entity, entity_id, old, new, job, partition,"
                f" attempt_no, worker, reason, detail) VALUES ({', '.join(['%s'] * 14)})",
                [
                    [t.session, t.seq, at(t.at_us), t.mono_ns, t.entity.value, t.entity_id, t.old, t.new, t.job,
                     t.partition, t.attempt_no, t.worker, t.reason, json.dumps(dict(t.detail))]
                    for t in transitions
                ],
            )  # fmt: skip

    def _upsert(self, table: str, **columns: Any) -> None:
        names, sets = ", ".join(columns), ", ".join(f"{name} = excluded.{name}" for name in columns)
        values = [json.dumps(v) if isinstance(v, dict) else v for v in columns.values()]
        marks = ", ".join(["%s"] * len(columns))
        self.connection.execute(
            f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {sets}", values
        )

    def _session(self, key: str, view: View) -> None:
        d = view.detail
        ended = at(view.since_us) if view.state in ("stopped", "lost") else None
        self._upsert(
            "session", id=key, prover=d["prover"], host=d["host"], pid=d["pid"], version=d["version"], machine="",
            head_seq=self.state.heads[key], started_at=at(min(view.times.values())), ended_at=ended, **mirror(view),
        )  # fmt: skip

    def _device(self, key: str, view: View) -> None:
        d = view.detail
        self._upsert(
            "device", id=key, session_id=view.session, ordinal=d["ordinal"], name=d["name"], platform=d["platform"],
            memory_total_bytes=d["memory_total_bytes"], **mirror(view),
        )  # fmt: skip

    def _worker(self, key: str, view: View) -> None:
        d, (prover, ordinal, _) = view.detail, key.rsplit("/", 2)
        self._upsert(
            "worker", id=key, session_id=view.session, device_id=f"{prover}/{ordinal}", prover=prover,
            ordinal=d["ordinal"], sub_id=d["sub"], display_id=d["display"], epoch=d["epoch"], admin="enabled",
            admin_times={}, admin_detail={}, admin_moved_seq=0, **mirror(view),
        )  # fmt: skip

    def _admin(self, key: str, view: View) -> None:
        columns = {f"admin_{name}": value for name, value in mirror(view).items()}
        columns |= {"admin": columns.pop("admin_state"), "admin_at": columns.pop("admin_state_at")}
        columns["admin_by"] = view.detail.get("by")
        values = [json.dumps(v) if isinstance(v, dict) else v for v in columns.values()]
        names = ", ".join(f"{name} = %s" for name in columns)
        self.connection.execute(f"UPDATE worker SET {names} WHERE id = %s", [*values, key])

    def _holding(self, key: str, view: View) -> None:
        self._upsert("holding", id=key, session_id=view.session, **mirror(view))

    def _job(self, key: str, view: View) -> None:
        d = view.detail
        self._upsert(
            "job", id=key, number=d["number"], request_id=d["request_id"], request_digest=key.encode(), kind=d["kind"],
            sector_size=d["sector_size"], priority=d["priority"], partition_index=d["partition_index"],
            partitions=d["partitions"], partitions_done=0, submitted_by=d["submitted_by"], miner_id=d["miner_id"],
            submitted_at=at(view.times["queued"]), ended_at=at(view.since_us) if view.state in JOB_ENDS else None,
            started_at=at(view.times.get("loading")), lease_epoch=0, losses=0, error_code=view.reason, timings={},
            error_message=d.get("error"), session_id=None if view.session == SITE else view.session, **mirror(view),
        )  # fmt: skip

    def _attempt(self, key: str, view: View) -> None:
        self._upsert(
            "attempt", id=key, job_id=view.job, partition=view.partition, attempt_no=view.attempt_no,
            session_id=view.session, worker_id=view.worker, **mirror(view),
        )  # fmt: skip

    def _counters(self) -> None:
        for key, count in self.state.ended.items():
            kind, _, state = key.rpartition(" ")
            self.connection.execute(
                "INSERT INTO counter (kind, state, count) VALUES (%s, %s, %s)"
                " ON CONFLICT (kind, state) DO UPDATE SET count = excluded.count",
                [kind, state, count],
            )
