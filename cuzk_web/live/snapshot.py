"""The fleet as the state tables have it at one moment: what a hub starts from, equal to a fold of the log.

All is read in one repeatable-read transaction, so the heads and the states belong together: a row after the head is
not in the state, a row up to it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection, IsolationLevel

from prover.states import ATTEMPT_ENDS, Entity, FleetState, View, from_json

from .retention import KEEP_JOBS, forget
from .rows import SITE
from .source import connect

KEEP_COMMANDS: Final = 200  # as many are read; those that were answered long ago leave again

_HEADS: Final = "SELECT id::text, head_seq FROM session"
_ENDED: Final = "SELECT kind || ' ' || state, count FROM counter"
_NOW: Final = "SELECT (extract(epoch FROM now()) * 1000000)::bigint"
_VIEWS: Final = """
    WITH shown AS (
        SELECT id FROM job WHERE ended_at IS NULL
        UNION SELECT job_id FROM attempt WHERE state <> ALL(%(ends)s)
        UNION (SELECT id FROM job WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT %(jobs)s))
    SELECT entity, id, state, times, detail, reason, session::text, seq, job::text, partition, attempt_no, worker
    FROM mirror
    WHERE entity IN ('session', 'device', 'worker', 'admin', 'holding')
       OR entity = 'job' AND job IN (SELECT id FROM shown)
       OR entity = 'attempt' AND job IN (SELECT id FROM shown)
       OR entity = 'command' AND id IN (SELECT id::text FROM command ORDER BY requested_at DESC LIMIT %(commands)s)"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`heads` has every session, that of `state` only those that the page shows."""

    state: FleetState
    heads: dict[str, int]
    now_us: int


async def read() -> Snapshot:
    """Read it, over a connection of its own."""
    connection = await connect()
    try:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        async with connection.transaction():
            heads = dict(await _all(connection, _HEADS))
            ended = dict(await _all(connection, _ENDED))
            ((now_us,),) = await _all(connection, _NOW)
            wanted = {"ends": [str(end) for end in ATTEMPT_ENDS], "jobs": KEEP_JOBS, "commands": KEEP_COMMANDS}
            records = await _all(connection, _VIEWS, wanted)
    finally:
        await connection.close()
    return Snapshot(_state(records, heads, ended, now_us), heads, now_us)


def _state(records: list[Any], heads: dict[str, int], ended: dict[str, int], now_us: int) -> FleetState:
    state = FleetState(heads=dict(heads), ended=ended)
    for entity, key, *fields in records:
        state.views[Entity(entity)][key] = View(*fields)
    state = forget(from_json(state.to_json()), now_us)  # derives what is derived
    state.heads = {s: seq for s, seq in heads.items() if s == SITE or s in state.views[Entity.SESSION]}
    return state


async def _all(connection: AsyncConnection[Any], query: Any, parameters: Any = None) -> list[Any]:
    return await (await connection.execute(query, parameters)).fetchall()
