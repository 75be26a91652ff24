"""One batch, one transaction: transitions, the rows they move, proofs, counters, what was refused, and one NOTIFY."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import structlog

from prover.states import Entity, Transition

from .errors import SessionLost
from .mirror import Mirror, Written
from .records import Anomaly, Delivery, Proof, Record, Sample
from .text import MAX_TIME, copy_text, json_text, timestamp

log = structlog.get_logger(__name__)

LIVE = ("", "starting", "online")
MAX_LATE = 1000  # refused moves of a batch of a lost session that are kept one by one; the log counts the rest

_COPY = """COPY transition (session_id, seq, at, mono_ns, entity, entity_id, old, new, job, partition, attempt_no,
    worker, reason, detail) FROM STDIN"""
_PROOF = """INSERT INTO proof (job_id, partition, proof, attempt_no, session_id, verified_at)
    SELECT %s, %s, %s, %s, %s, %s WHERE EXISTS (SELECT FROM job WHERE id = %s) ON CONFLICT DO NOTHING"""
_PROVEN = (
    "UPDATE job SET partitions_done = (SELECT count(*) FROM proof WHERE job_id = job.id) WHERE id = ANY(%s::uuid[])"
)
_DELIVERY = """INSERT INTO delivery (job_id, proof, verified_at)
    SELECT id, %s, %s FROM job WHERE id = %s AND session_id = %s ON CONFLICT DO NOTHING"""
_COUNT = """INSERT INTO counter (kind, state, count) VALUES (%s, %s, %s)
    ON CONFLICT (kind, state) DO UPDATE SET count = counter.count + EXCLUDED.count"""
_ANOMALY = """INSERT INTO anomaly (session_id, number, at, code, entity, entity_id, old, new, detail)
    SELECT %(session)s, r.number, from_us(r.at), r.code, r.entity, r.entity_id, r.old, r.new, r.detail
    FROM jsonb_to_recordset(%(rows)s::jsonb)
        AS r(number bigint, at bigint, code text, entity text, entity_id text, old text, new text, detail jsonb)
    ON CONFLICT DO NOTHING"""
_SAMPLE = "INSERT INTO sample (session_id, at, gauges) VALUES (%s, %s, %s::jsonb) ON CONFLICT DO NOTHING"
_HELD = "SELECT id::text FROM job WHERE id = ANY(%s::uuid[]) AND session_id = %s"
_HEAD = """WITH head AS (UPDATE session SET head_seq = %s WHERE id = %s RETURNING id)
    SELECT pg_notify('cuzk', '') FROM (SELECT count(*) FROM head) AS moved"""
_FENCE = "SELECT state, head_seq FROM session WHERE id = %s FOR NO KEY UPDATE"


class HeadMoved(Exception):
    """The log stands elsewhere than the writer believed: a commit whose answer was lost had succeeded."""

    def __init__(self, head: int) -> None:
        super().__init__(head)
        self.head = head


@dataclass(slots=True)
class Sorted:
    """The records of a batch by kind, each in order."""

    transitions: list[Transition] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)

    @staticmethod
    def of(records: Iterable[Record]) -> Sorted:
        """Sort records into their kinds."""
        result = Sorted()
        kinds: dict[type, list[Any]] = {
            Transition: result.transitions, Anomaly: result.anomalies, Sample: result.samples,
            Proof: result.proofs, Delivery: result.deliveries,
        }  # fmt: skip
        for record in records:
            kinds[type(record)].append(record)
        return result


def write(connection: psycopg.Connection, mirror: Mirror, head: int, records: Sequence[Record]) -> int:
    """Write records of a session whose log stands at `head`; returns where it stands now.

    Raises SessionLost when the session has ended (nothing is written then), HeadMoved when the log stands elsewhere,
    and psycopg's errors. Transitions up to `head` are skipped: they are there already.
    """
    batch = Sorted.of(records)
    fresh = [t for t in batch.transitions if t.seq > head]
    with connection.transaction(), connection.cursor() as cursor:
        fresh = _without_stale(cursor, mirror.session, fresh, batch.anomalies)
        _copy(cursor, fresh)
        _fence(cursor, mirror.session, head)
        _store_proofs(cursor, mirror.session, batch.proofs)
        written = mirror.write(cursor, fresh)
        for delivery in batch.deliveries:
            parameters = [delivery.proof, timestamp(delivery.at_us), delivery.job, mirror.session]
            cursor.execute(_DELIVERY, parameters)
        new_head = fresh[-1].seq if fresh else head
        _finish(cursor, mirror.session, new_head, batch, written)
    mirror.keep(written)
    return new_head


def write_facts(connection: psycopg.Connection, session: str, records: Sequence[Record], reason: str) -> int:
    """What a session that has ended may still bring: proofs. Its moves are logged as anomalies; returns how many."""
    batch = Sorted.of(records)
    late = [
        Anomaly(-t.seq, t.at_us, "stale_session", t.entity.value, t.entity_id, t.old, t.new, {"reason": reason})
        for t in batch.transitions
    ]
    with connection.transaction(), connection.cursor() as cursor:
        _store_proofs(cursor, session, batch.proofs)
        _store_anomalies(cursor, session, [*batch.anomalies, *late[:MAX_LATE]])
        cursor.execute("SELECT pg_notify('cuzk', '')")
    if len(late) > MAX_LATE:
        log.warning("moves of a lost session are not kept", session=session, count=len(late) - MAX_LATE)
    return len(late)


def _without_stale(
    cursor: psycopg.Cursor[Any], session: str, transitions: Sequence[Transition], anomalies: list[Anomaly]
) -> list[Transition]:
    """Moves of jobs that the session does not hold, or gave back a moment ago, make way for a mark and an anomaly.

    No lock is needed: a lease comes by our own claim, which is committed before the first move, and goes by our own
    release or with the whole session.
    """
    jobs = sorted({t.job for t in transitions if t.job is not None})
    if not jobs:
        return list(transitions)
    held = {key for (key,) in cursor.execute(_HELD, [jobs, session]).fetchall()}
    result = []
    for t in transitions:
        if t.job is not None and t.job not in held:
            words = (t.entity.value, t.entity_id, t.old, t.new)
            anomalies.append(Anomaly(-t.seq, t.at_us, "stale_lease", *words, {"job": t.job}))
            t = placeholder(session, t, "stale_lease")
        elif t.entity is Entity.JOB and t.new in ("queued", "held"):
            held.discard(t.entity_id)
        result.append(t)
    return result


def _copy(cursor: psycopg.Cursor[Any], transitions: Sequence[Transition]) -> None:
    """Before the session's row is locked: whoever stops in the middle of a COPY holds up nobody."""
    if transitions:
        with cursor.copy(_COPY) as copy:
            copy.write("".join(map(_copy_row, transitions)))


def _copy_row(t: Transition) -> str:
    fields = (
        t.session, str(t.seq), timestamp(t.at_us).isoformat(), str(t.mono_ns), t.entity.value,
        copy_text(t.entity_id), t.old, t.new, t.job or "\\N", "\\N" if t.partition is None else str(t.partition),
        "\\N" if t.attempt_no is None else str(t.attempt_no), copy_text(t.worker), copy_text(t.reason),
        json_text(t.detail).replace("\\", "\\\\") if t.detail else "{}",
    )  # fmt: skip
    return "\t".join(fields) + "\n"


def _fence(cursor: psycopg.Cursor[Any], session: str, head: int) -> None:
    row = cursor.execute(_FENCE, [session]).fetchone()
    if row is None or row[0] not in LIVE:
        raise SessionLost(f"session {session} is {row[0] if row else 'unknown'} in the database")
    if row[1] != head:
        raise HeadMoved(row[1])


def _store_proofs(cursor: psycopg.Cursor[Any], session: str, proofs: Sequence[Proof]) -> None:
    """In one order everywhere, and before any row of a job is locked: two sessions may bring the same proof."""
    if not proofs:
        return
    for p in sorted(proofs, key=lambda p: (p.job, p.partition)):
        parameters = [p.job, p.partition, p.proof, p.attempt_no, session, timestamp(p.at_us), p.job]
        cursor.execute(_PROOF, parameters)
    cursor.execute(_PROVEN, [sorted({p.job for p in proofs})])


def _finish(cursor: psycopg.Cursor[Any], session: str, head: int, batch: Sorted, written: Written) -> None:
    """What everybody shares comes last, so that nobody waits for it long."""
    rejected = [
        Anomaly(None, batch.transitions[-1].at_us, "row_rejected", entity.value, key, "", view.state, {})
        for entity, key in written.rejected
        for view in (written.state.get(entity, key),)
    ]
    _store_anomalies(cursor, session, [*batch.anomalies, *rejected])
    for sample in batch.samples[-1:]:  # gauges of one moment: the last of the batch stands for it
        cursor.execute(_SAMPLE, [session, timestamp(sample.at_us), json_text(sample.gauges)])
    for key, count in sorted(Counter(written.ended).items()):
        kind, _, state = key.rpartition(" ")
        cursor.execute(_COUNT, [kind, state, count])
    cursor.execute(_HEAD, [head, session])


def _store_anomalies(cursor: psycopg.Cursor[Any], session: str, anomalies: Sequence[Anomaly]) -> None:
    if anomalies:
        rows = [
            {"number": a.number, "at": a.at_us, "code": a.code, "entity": a.entity, "entity_id": a.entity_id,
             "old": a.old, "new": a.new, "detail": a.detail} for a in anomalies
        ]  # fmt: skip
        cursor.execute(_ANOMALY, {"session": session, "rows": json_text(rows)})


def placeholder(session: str, near: Transition, reason: str, seq: int | None = None) -> Transition:
    """What stands in the log for a record that was lost, or that may not be written: numbers stay dense.

    It has the time of `near`, the record itself or one beside it, and nothing else of it: that may be what is refused.
    """
    at_us = near.at_us if 0 <= near.at_us < MAX_TIME else now_us()
    mono_ns = near.mono_ns if 0 <= near.mono_ns < 1 << 63 else 0
    number = near.seq if seq is None else seq
    return Transition(
        session, number, at_us, mono_ns, Entity.SESSION, session, "online", "online", reason=reason
    )  # fmt: skip


def now_us() -> int:
    """This machine's time, for what has no time of its own."""
    return time.time_ns() // 1000
