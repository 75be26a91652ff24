"""What is true now of what each condition looks for, read from what is recorded. All times are the database's.

A condition that lasts is seen at the moment of the look; one that happens is seen when it happened last, and is found
for as long as the rule's `settle_s`. Each query is bounded, by an index or by a number of rows.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from cuzk_web.formats import span
from cuzk_web.live.labels import duration, kind_name

from .conditions import Condition
from .models import Rule

MOST: Final = 50  # alerts of a rule; what is more is counted in one
LONGEST: Final = 300  # characters of a message that came from elsewhere
FACTOR: Final = 5  # times the usual length of a phase
NEWEST: Final = 2000  # jobs that are looked through for failures and late ends
ENGINE_S: Final = 60  # that an engine may be silent while its prover lives


@dataclass(frozen=True, slots=True)
class Fact:
    """The condition is true of `key`; it was last at `at`, so many times as `count` says."""

    key: str
    title: str
    at: datetime
    text: str = ""
    link: str = ""
    count: int = 1


def facts(rule: Rule, now: datetime) -> list[Fact]:
    """All that a rule finds at `now`, the database's time; at most MOST and one that counts the others."""
    found = list(_FINDERS[Condition(rule.condition)](rule, now))
    if len(found) <= MOST:
        return found
    more = len(found) - MOST
    return [*found[:MOST], Fact("…", f"{more} more of {rule.name!r}", found[-1].at, count=more)]


def database_now() -> datetime:
    """The time of this transaction."""
    (row,) = _rows("SELECT now()")
    return row["now"]  # type: ignore[no-any-return]


# -- jobs --------------------------------------------------------------------------------------------------------------

_FAILED: Final = """WITH newest AS (SELECT * FROM job WHERE state = 'failed' AND (%(kind)s = '' OR kind = %(kind)s)
        ORDER BY submitted_at DESC, number DESC LIMIT %(newest)s)
    SELECT kind, coalesce(error_code, 'unknown') AS code, count(*) AS count, max(ended_at) AS at,
        (array_agg(id::text ORDER BY ended_at DESC))[1] AS job,
        (array_agg(request_id ORDER BY ended_at DESC))[1] AS request,
        (array_agg(error_message ORDER BY ended_at DESC))[1] AS message
    FROM newest WHERE ended_at > %(now)s - make_interval(secs => %(settle)s) GROUP BY 1, 2 ORDER BY 4 DESC"""


def _failed_jobs(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_FAILED, _given(rule, now)):
        several = (
            f"{row['count']} {kind_name(row['kind'])} jobs" if row["count"] > 1 else f"A {kind_name(row['kind'])} job"
        )
        text = f"last: {row['request']}: {row['message'] or 'no message'}"
        title = f"{several} failed: {row['code']}"
        yield Fact(f"{row['kind']} {row['code']}", title, row["at"], _cut(text), _job(row["job"]), row["count"])


_WAITING: Final = """SELECT kind, count(*) AS count, min(state_at) AS since,
        (array_agg(id::text ORDER BY state_at))[1] AS job, (array_agg(request_id ORDER BY state_at))[1] AS request
    FROM job WHERE ended_at IS NULL AND state = 'queued' AND (%(kind)s = '' OR kind = %(kind)s)
    GROUP BY kind HAVING min(state_at) < %(now)s - make_interval(secs => %(seconds)s) ORDER BY 3"""


def _old_queue(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_WAITING, _given(rule, now)):
        title = (
            f"{kind_name(row['kind'])}: the oldest of {row['count']} queued jobs waits for {span(row['since'], now)}"
        )
        yield Fact(row["kind"], title, now, _cut(f"oldest: {row['request']}"), _job(row["job"]), row["count"])


_DUE: Final = """SELECT id::text AS job, request_id AS request, kind, sector_size, deadline, state, partitions,
        greatest(partitions - partitions_done, 0) AS left
    FROM job WHERE ended_at IS NULL AND deadline > %(now)s AND (%(kind)s = '' OR kind = %(kind)s)
    ORDER BY deadline LIMIT 1000"""
_PARTITION_S: Final = """SELECT extract(epoch FROM ended_at - started_at) / greatest(partitions, 1) AS seconds
    FROM (SELECT * FROM job WHERE kind = %s AND state = 'done' ORDER BY submitted_at DESC, number DESC LIMIT 50) newest
    WHERE sector_size = %s AND started_at IS NOT NULL"""


def _deadlines(rule: Rule, now: datetime) -> Iterable[Fact]:
    usual: dict[tuple[str, int], float] = {}
    for row in _rows(_DUE, _given(rule, now)):
        sort = (row["kind"], row["sector_size"])
        if sort not in usual:
            usual[sort] = _median([float(r["seconds"]) for r in _rows(_PARTITION_S, sort)])
        to_go, needed = (row["deadline"] - now).total_seconds(), usual[sort] * row["left"]
        if to_go < max(rule.wait_s, needed):
            title = f"{row['request']} is due in {duration(1000 * to_go)}"
            takes = f", which usually take {duration(1000 * needed)}" if needed else ""
            text = f"{row['state']}, {row['left']} of {row['partitions']} partitions to go{takes}"
            yield Fact(row["job"], _cut(title), now, text, _job(row["job"]))


_LATE: Final = """SELECT id::text AS job, request_id AS request, deadline, ended_at, state FROM job
    WHERE ended_at IS NULL AND deadline < %(now)s AND (%(kind)s = '' OR kind = %(kind)s)
    UNION ALL SELECT id::text, request_id, deadline, ended_at, state FROM (
        SELECT * FROM job ORDER BY submitted_at DESC, number DESC LIMIT %(newest)s) newest
    WHERE ended_at > %(now)s - make_interval(secs => %(settle)s) AND deadline < ended_at AND state <> 'cancelled'
        AND (%(kind)s = '' OR kind = %(kind)s)
    ORDER BY deadline LIMIT 1000"""


def _missed(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_LATE, _given(rule, now)):
        ended, late = row["ended_at"], span(row["deadline"], row["ended_at"] or now)
        title = f"{row['request']} missed its deadline"
        text = f"{row['state']} {late} after it" if ended else f"{row['state']}, {late} after it"
        yield Fact(row["job"], _cut(title), ended or now, text, _job(row["job"]))


# -- provers and workers -----------------------------------------------------------------------------------------------

_LOST: Final = """SELECT * FROM (SELECT DISTINCT ON (prover) prover, host, state, state_at, reason FROM session
        WHERE prover <> 'site' AND (ended_at IS NULL OR ended_at > %(now)s - interval '1 day')
        ORDER BY prover, started_at DESC) newest WHERE state = 'lost' ORDER BY state_at"""
_PARTS: Final = """SELECT 'worker' AS what, 'W' || w.display_id || ' (' || w.id || ')' AS name, w.id, w.reason
        FROM worker w JOIN session s ON s.id = w.session_id WHERE s.state = 'online' AND w.state = 'lost'
    UNION ALL SELECT 'device', d.name || ' (' || d.id || ')', d.id, d.reason
        FROM device d JOIN session s ON s.id = d.session_id WHERE s.state = 'online' AND d.state = 'lost' ORDER BY 3"""


def _lost(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_LOST, _given(rule, now)):
        text = f"{row['reason'] or 'no cause known'}; it ran on {row['host'] or 'an unknown host'}"
        yield Fact(f"prover {row['prover']}", _cut(f"Prover {row['prover']} is lost"), now, _cut(text), "/")
    for row in _rows(_PARTS):
        title = f"{row['what'].capitalize()} {row['name']} is lost"
        yield Fact(f"{row['what']} {row['id']}", _cut(title), now, _cut(row["reason"] or "no cause known"), "/")


_AT_WORK: Final = """SELECT a.id, a.state, a.state_at, a.partition, a.worker_id AS worker, j.id::text AS job,
        j.request_id AS request, j.kind, j.sector_size
    FROM attempt a JOIN session s ON s.id = a.session_id JOIN job j ON j.id = a.job_id
    WHERE a.state IN ('synthesizing', 'claimed', 'device_wait', 'device', 'finalizing', 'finishing')
        AND s.state = 'online' AND a.state_at < %(now)s - make_interval(secs => %(seconds)s)
        AND (%(kind)s = '' OR j.kind = %(kind)s)
    ORDER BY a.state_at LIMIT 500"""
_PAST: Final = """SELECT a.times FROM (SELECT id FROM job WHERE kind = %s AND state = 'done'
        ORDER BY submitted_at DESC, number DESC LIMIT 20) j
    JOIN attempt a ON a.job_id = j.id AND a.state = 'done' JOIN job whole ON whole.id = j.id AND whole.sector_size = %s
    LIMIT 200"""
_SILENT: Final = """SELECT prover, tick_at FROM session WHERE state = 'online' AND lease_until > %(now)s
    AND tick_at < %(now)s - make_interval(secs => %(engine)s) ORDER BY prover"""


def _stuck(rule: Rule, now: datetime) -> Iterable[Fact]:
    usual: dict[tuple[str, int, str], float] = {}
    for row in _rows(_AT_WORK, _given(rule, now)):
        sort = (row["kind"], row["sector_size"], row["state"])
        if sort not in usual:
            usual[sort] = usual_phase_s(*sort)
        lasts = (now - row["state_at"]).total_seconds()
        if lasts > FACTOR * (usual[sort] or rule.wait_s):
            yield _stuck_fact(row, now, lasts, usual[sort])
    for row in _rows(_SILENT, _given(rule, now)):
        title = f"Prover {row['prover']} lives, but its engine has not answered for {span(row['tick_at'], now)}"
        yield Fact(f"engine {row['prover']}", _cut(title), now, link="/")


def _stuck_fact(row: Mapping[str, Any], now: datetime, lasts: float, usual: float) -> Fact:
    where = f"{row['worker']}: " if row["worker"] else ""
    title = f"{where}no progress for {duration(1000 * lasts)}"
    known = f"usually {duration(1000 * usual)}" if usual else "how long it usually takes is not known"
    phase = row["state"].replace("_", " ")
    text = f"P{row['partition']} of {row['request']} is in the phase {phase}; {known}"
    return Fact(row["id"], _cut(title), now, _cut(text), _job(row["job"]))


def usual_phase_s(kind: str, sector_size: int, state: str) -> float:
    """The median length of a phase, of attempts that were done lately; 0.0 when none was."""
    lengths = []
    for row in _rows(_PAST, (kind, sector_size)):
        times = json.loads(row["times"])
        entered = times.get(state)
        after = [at for at in times.values() if entered is not None and at > entered]
        lengths += [(min(after) - entered) / 1e6] if after else []
    return _median(lengths)


_FALLEN: Final = """SELECT * FROM (SELECT DISTINCT ON (prover) prover, state, started_at,
            detail ->> 'platform' AS platform
        FROM session WHERE prover <> 'site' AND ended_at IS NULL ORDER BY prover, started_at DESC) s
    WHERE state = 'online' AND platform = 'cpu' AND EXISTS (SELECT FROM session e
        WHERE e.prover = s.prover AND e.ended_at > %(now)s - interval '30 days' AND e.started_at < s.started_at
        AND e.detail ->> 'platform' NOT IN ('cpu', 'unknown')) ORDER BY prover"""


def _on_cpu(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_FALLEN, _given(rule, now)):
        title = f"Prover {row['prover']} proves on the CPU; it had a GPU before"
        yield Fact(row["prover"], _cut(title), now, link="/")


_QUARANTINED: Final = """SELECT id, display_id, admin_reason, admin_at FROM worker
    WHERE admin = 'quarantined' AND state = 'online' ORDER BY id"""


def _quarantined(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_QUARANTINED):
        title = f"W{row['display_id']} ({row['id']}) is in quarantine"
        yield Fact(row["id"], _cut(title), now, _cut(row["admin_reason"] or ""), "/")


# -- attempts and anomalies --------------------------------------------------------------------------------------------

_ATTEMPTS: Final = """SELECT coalesce(regexp_replace(worker_id, '/[^/]*$', ''), 'synthesis') AS device,
        count(*) AS count, max(state_at) AS at, (array_agg(job_id::text ORDER BY state_at DESC))[1] AS job,
        (array_agg(coalesce(detail ->> 'error', reason) ORDER BY state_at DESC))[1] AS message
    FROM attempt WHERE state = 'failed' AND state_at > %(now)s - make_interval(secs => %(settle)s) AND {} GROUP BY 1
    ORDER BY 1"""
_NO_MEMORY: Final = _ATTEMPTS.format(
    "(reason ~ 'memory' OR detail ->> 'error' ~* 'out of memory|resource_exhausted|cannot allocate')"
)
_REFUSED: Final = _ATTEMPTS.format("reason = 'proof_refused'")


def _attempts(query: str, words: str) -> Callable[[Rule, datetime], Iterable[Fact]]:
    def find(rule: Rule, now: datetime) -> Iterable[Fact]:
        for row in _rows(query, _given(rule, now)):
            times = "once" if row["count"] == 1 else f"{row['count']} times"
            title, text = f"{row['device']}: {words} {times}", f"last: {row['message'] or 'no message'}"
            yield Fact(row["device"], _cut(title), row["at"], _cut(text), _job(row["job"]), row["count"])

    return find


_ODD: Final = """SELECT code, count(*) AS count, max(at) AS at,
        (array_agg(entity || ' ' || entity_id ORDER BY id DESC))[1] AS what,
        (array_agg(detail ->> 'text' ORDER BY id DESC))[1] AS text
    FROM anomaly WHERE id > (SELECT coalesce(max(id), 0) - 5000 FROM anomaly)
        AND at > %(now)s - make_interval(secs => %(settle)s) GROUP BY code ORDER BY code"""


def _anomalies(rule: Rule, now: datetime) -> Iterable[Fact]:
    for row in _rows(_ODD, _given(rule, now)):
        title = f"{row['count']} anomalies: {row['code']}" if row["count"] > 1 else f"Anomaly: {row['code']}"
        text = f"last: {row['what']}" + (f": {row['text']}" if row["text"] else "")
        yield Fact(row["code"], title, row["at"], _cut(text), "/", row["count"])


# -- helpers -----------------------------------------------------------------------------------------------------------


def _given(rule: Rule, now: datetime) -> dict[str, Any]:
    return {
        "now": now, "kind": rule.kind, "seconds": rule.wait_s, "settle": rule.settle_s, "newest": NEWEST,
        "engine": ENGINE_S,
    }  # fmt: skip


def _rows(query: str, given: Any = None) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, record, strict=True)) for record in cursor.fetchall()]


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def _job(job: str) -> str:
    return f"/jobs/{job}/"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


_FINDERS: Final[Mapping[Condition, Callable[[Rule, datetime], Iterable[Fact]]]] = {
    Condition.FAILED_JOB: _failed_jobs,
    Condition.LOST_PROVER: _lost,
    Condition.STUCK_WORKER: _stuck,
    Condition.DEADLINE_AT_RISK: _deadlines,
    Condition.DEADLINE_MISSED: _missed,
    Condition.ANOMALY: _anomalies,
    Condition.QUEUE_AGE: _old_queue,
    Condition.OUT_OF_MEMORY: _attempts(_NO_MEMORY, "out of memory"),
    Condition.CPU_FALLBACK: _on_cpu,
    Condition.QUARANTINED_WORKER: _quarantined,
    Condition.REFUSED_PROOF: _attempts(_REFUSED, "proofs that do not verify,"),
}
