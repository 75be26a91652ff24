"""The state tables as the fold of the log: rows are read as views, `states.apply` moves them, they are written back.

So a row cannot differ from what a page folds. Each table takes its rows as one JSON text, in one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from prover.states import ATTEMPT_ENDS, FRONT, JOB_ENDS, Attempt, Entity, FleetState, Transition, View, apply

from .text import json_text

_VIEW = "state, times, detail, reason, moved_by::text, moved_seq"
_READ: Mapping[Entity, str] = {
    Entity.SESSION: f"SELECT id::text, {_VIEW} FROM session WHERE id = ANY(%s::uuid[]) AND moved_by IS NOT NULL",
    Entity.DEVICE: f"SELECT id, {_VIEW} FROM device WHERE id = ANY(%s)",
    Entity.WORKER: f"SELECT id, {_VIEW}, NULL, NULL, NULL, id FROM worker WHERE id = ANY(%s)",
    Entity.ADMIN: (
        "SELECT id, admin, admin_times, admin_detail, admin_reason, admin_moved_by::text, admin_moved_seq,"
        " NULL, NULL, NULL, id FROM worker WHERE id = ANY(%s) AND admin_moved_by IS NOT NULL"
    ),
    Entity.HOLDING: f"SELECT id, {_VIEW} FROM holding WHERE id = ANY(%s)",
    Entity.JOB: f"SELECT id::text, {_VIEW}, id::text FROM job WHERE id = ANY(%s::uuid[])",
    Entity.ATTEMPT: (
        f"SELECT id, {_VIEW}, job_id::text, partition, attempt_no, worker_id FROM attempt WHERE id = ANY(%s)"
    ),
    Entity.COMMAND: f"SELECT id::text, {_VIEW} FROM command WHERE id = ANY(%s::uuid[])",
}

_ROW = "state text, at bigint, times jsonb, detail jsonb, reason text, by uuid, seq bigint"
_SET = (
    "state = {0}.state, state_at = {0}.state_at, times = {0}.times, detail = {0}.detail, reason = {0}.reason,"
    " moved_by = {0}.moved_by, moved_seq = {0}.moved_seq"
)
_COLUMNS = "state, state_at, times, detail, reason, moved_by, moved_seq"
_VALUES = "r.state, from_us(r.at), r.times, r.detail, r.reason, r.by, r.seq"
_MOVE = (
    "state = r.state, state_at = from_us(r.at), times = r.times, detail = r.detail, reason = r.reason,"
    " moved_by = r.by, moved_seq = r.seq"
)


def _from(key: str) -> str:
    return f"FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id {key}, {_ROW})"


_EXCLUDED = _SET.format("EXCLUDED")
_WRITE: Mapping[Entity, str] = {
    Entity.SESSION: f"""
        UPDATE session s SET {_MOVE}, host = coalesce(r.detail->>'host', s.host),
            version = coalesce(r.detail->>'version', s.version),
            ended_at = CASE WHEN r.state IN ('stopped', 'lost') THEN from_us(r.at) END
        {_from("uuid")} WHERE s.id = r.id RETURNING s.id::text""",
    Entity.DEVICE: f"""
        INSERT INTO device (id, session_id, ordinal, name, platform, memory_total_bytes, {_COLUMNS})
        SELECT r.id, %(session)s, coalesce((r.detail->>'ordinal')::integer, 0), coalesce(r.detail->>'name', ''),
            coalesce(r.detail->>'platform', ''), (r.detail->>'memory_total_bytes')::bigint, {_VALUES}
        {_from("text")}
        ON CONFLICT (id) DO UPDATE SET session_id = EXCLUDED.session_id, ordinal = EXCLUDED.ordinal,
            name = EXCLUDED.name, platform = EXCLUDED.platform, memory_total_bytes = EXCLUDED.memory_total_bytes,
            {_EXCLUDED} RETURNING id""",
    Entity.WORKER: f"""
        INSERT INTO worker (id, session_id, device_id, prover, ordinal, sub_id, display_id, epoch, admin, admin_times,
            admin_detail, admin_moved_seq, {_COLUMNS})
        SELECT r.id, %(session)s, regexp_replace(r.id, '/[^/]*$', ''), regexp_replace(r.id, '/[^/]*/[^/]*$', ''),
            coalesce((r.detail->>'ordinal')::integer, 0), coalesce((r.detail->>'sub')::integer, 0),
            coalesce((r.detail->>'display')::integer, 0), coalesce((r.detail->>'epoch')::integer, 1), 'enabled', '{{}}',
            '{{}}', 0, {_VALUES}
        {_from("text")}
        ON CONFLICT (id) DO UPDATE SET session_id = EXCLUDED.session_id, ordinal = EXCLUDED.ordinal,
            sub_id = EXCLUDED.sub_id, display_id = EXCLUDED.display_id, epoch = EXCLUDED.epoch, {_EXCLUDED}
        RETURNING id""",
    Entity.ADMIN: f"""
        UPDATE worker w SET admin = r.state, admin_at = from_us(r.at), admin_times = r.times, admin_detail = r.detail,
            admin_reason = r.reason, admin_by = r.detail->>'by', admin_moved_by = r.by, admin_moved_seq = r.seq
        {_from("text")} WHERE w.id = r.id RETURNING w.id""",
    Entity.HOLDING: f"""
        INSERT INTO holding (id, session_id, {_COLUMNS}) SELECT r.id, %(session)s, {_VALUES} {_from("text")}
        ON CONFLICT (id) DO UPDATE SET session_id = EXCLUDED.session_id, {_EXCLUDED} RETURNING id""",
    # only a job that is leased to this session; back in the queue it is nobody's
    Entity.JOB: f"""
        UPDATE job j SET {_MOVE}, session_id = CASE WHEN r.state IN ('queued', 'held') THEN NULL ELSE j.session_id END,
            started_at = coalesce(j.started_at, from_us((r.times->>'loading')::bigint)),
            ended_at = CASE WHEN r.state IN ('done', 'failed', 'cancelled') THEN from_us(r.at) END,
            priority = coalesce((r.detail->>'priority')::integer, j.priority),
            deadline = CASE WHEN r.detail ? 'deadline_us' THEN from_us((r.detail->>'deadline_us')::bigint)
                ELSE j.deadline END,
            error_code = r.detail->>'error_code', error_message = r.detail->>'error',
            local_keys = coalesce((r.detail->>'local_keys')::boolean, j.local_keys),
            timings = coalesce(r.detail->'timings', j.timings)
        {_from("uuid")} WHERE j.id = r.id AND j.session_id = %(session)s RETURNING j.id::text""",
    Entity.ATTEMPT: f"""
        INSERT INTO attempt (id, session_id, job_id, partition, attempt_no, worker_id, {_COLUMNS})
        SELECT r.id, %(session)s, r.job, r.partition, r.attempt_no, r.worker, {_VALUES}
        FROM jsonb_to_recordset(%(rows)s::jsonb)
            AS r(id text, {_ROW}, job uuid, partition integer, attempt_no integer, worker text, rank integer)
        ORDER BY r.rank
        ON CONFLICT (id) DO UPDATE SET worker_id = EXCLUDED.worker_id, {_EXCLUDED} RETURNING id""",
    Entity.COMMAND: f"""
        UPDATE command c SET {_MOVE}, session_id = %(session)s, outcome = r.detail->>'outcome',
            answered_at = CASE WHEN r.state IN ('done', 'refused') THEN from_us(r.at) END
        {_from("uuid")} WHERE c.id = r.id AND c.state IN ('pending', 'taken') RETURNING c.id::text""",
}
#: a row breaks a constraint, or cannot be a row at all
REFUSALS = (psycopg.IntegrityError, psycopg.DataError)
#: what refers to something comes after it
_ORDER = (
    Entity.SESSION, Entity.DEVICE, Entity.WORKER, Entity.ADMIN, Entity.HOLDING, Entity.ATTEMPT, Entity.JOB,
    Entity.COMMAND,
)  # fmt: skip


@dataclass(slots=True)
class Mirror:
    """The rows of one session's things. Keeps the views of attempts that are open, which nobody else moves."""

    session: str
    _attempts: dict[str, View] = field(default_factory=dict)

    def write(self, cursor: psycopg.Cursor[Any], transitions: Sequence[Transition]) -> Written:
        """Bring all touched rows up to date. Call `keep` with the answer once the transaction is committed."""
        state = self._load(cursor, transitions)
        before = {key: view.state for key, view in state.views[Entity.JOB].items()}
        for transition in transitions:
            apply(state, transition)
        rejected = self._store_all(cursor, state)
        refused = {key for entity, key in rejected if entity is Entity.JOB}
        ended = [
            f"{view.detail.get('kind', 'unknown')} {view.state}"
            for key, view in state.views[Entity.JOB].items()
            if view.state in JOB_ENDS and before.get(key) not in JOB_ENDS and key not in refused
        ]
        return Written(state, ended, rejected)

    def keep(self, written: Written) -> None:
        """The transaction of `written` is committed."""
        for key, view in written.state.views[Entity.ATTEMPT].items():
            if view.state in ATTEMPT_ENDS:
                self._attempts.pop(key, None)
            else:
                self._attempts[key] = view

    def _load(self, cursor: psycopg.Cursor[Any], transitions: Iterable[Transition]) -> FleetState:
        state = FleetState()
        touched: dict[Entity, set[str]] = {}
        for transition in transitions:
            touched.setdefault(transition.entity, set()).add(transition.entity_id)
        for entity, keys in touched.items():
            if entity is Entity.ATTEMPT:
                state.views[entity] = {key: self._attempts[key] for key in keys if key in self._attempts}
            missing = [key for key in keys if key not in state.views[entity]]
            if missing:
                state.views[entity].update(read_views(cursor, entity, missing))
        return state

    def _store_all(self, cursor: psycopg.Cursor[Any], state: FleetState) -> list[tuple[Entity, str]]:
        """Write the rows of all tables; returns those that the database did not take.

        One savepoint serves all tables, because each costs two round trips; only when a row is refused is it found.
        """
        tables = [(entity, state.views[entity]) for entity in _ORDER if state.views[entity]]
        try:
            with cursor.connection.transaction():
                taken = {entity: self._write(cursor, entity, _rows(entity, views)) for entity, views in tables}
        except REFUSALS:
            taken = {entity: self._write_each(cursor, entity, _rows(entity, views)) for entity, views in tables}
        return [(entity, key) for entity, views in tables for key in views if key not in taken[entity]]

    def _write(self, cursor: psycopg.Cursor[Any], entity: Entity, rows: list[dict[str, Any]]) -> set[str]:
        parameters = {"session": self.session, "rows": json_text(rows)}
        return {key for (key,) in cursor.execute(_WRITE[entity], parameters).fetchall()}

    def _write_each(self, cursor: psycopg.Cursor[Any], entity: Entity, rows: list[dict[str, Any]]) -> set[str]:
        """All at once; or, when one of them is refused by a constraint, one by one without that one."""
        try:
            with cursor.connection.transaction():
                return self._write(cursor, entity, rows)
        except REFUSALS:
            if len(rows) == 1:
                return set()
            return set().union(*(self._write_each(cursor, entity, [row]) for row in sorted(rows, key=_rank)))


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch did to the state tables."""

    state: FleetState
    ended: Sequence[str]  # "kind state" of each job that ended
    rejected: Sequence[tuple[Entity, str]]  # rows that the database did not take


def read_views(cursor: psycopg.Cursor[Any], entity: Entity, keys: Sequence[str]) -> dict[str, View]:
    """The views of the named rows, those that exist."""
    cursor.execute(_READ[entity], [list(keys)])
    return {key: _view(*fields) for key, *fields in cursor.fetchall()}


def _view(
    state: str, times: Mapping[str, int], detail: Mapping[str, Any], reason: str | None, session: str | None, seq: int,
    job: str | None = None, partition: int | None = None, attempt_no: int | None = None, worker: str | None = None,
) -> View:  # fmt: skip
    return View(state, times, detail, reason, session, seq, job, partition, attempt_no, worker)


def _rows(entity: Entity, views: Mapping[str, View]) -> list[dict[str, Any]]:
    return [_row(entity, key, view) for key, view in views.items()]


def _row(entity: Entity, key: str, view: View) -> dict[str, Any]:
    row = {
        "id": key, "state": view.state, "at": view.moved_us, "times": view.times, "detail": view.detail,
        "reason": view.reason, "by": view.session, "seq": view.seq,
    }  # fmt: skip
    if entity is Entity.ATTEMPT:
        row |= {
            "job": view.job, "partition": view.partition, "attempt_no": view.attempt_no, "worker": view.worker,
            "rank": _attempt_rank(view.state),
        }  # fmt: skip
    return row


def _attempt_rank(state: str) -> int:
    """What frees a place (of a partition, of a worker's front) is written before what takes it."""
    if state in ATTEMPT_ENDS:
        return 0
    if state == Attempt.FINALIZING:
        return 1
    return 3 if state in FRONT else 2


def _rank(row: Mapping[str, Any]) -> int:
    return int(row.get("rank", 0))
