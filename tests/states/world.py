"""A small world for searches and traces: two workers of one device, a job of two partitions, two sessions, the site."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from prover.states import (
    ATTEMPT_ENDS,
    FRONT,
    JOB_LEASED,
    Activity,
    Admin,
    Attempt,
    Entity,
    FleetState,
    Job,
    Lifecycle,
    Move,
    Refused,
    Transition,
    apply,
    attempt_id,
    decide,
    fold,
    legal,
    unproven,
    worker_id,
)

FIRST, SECOND, SITE = "first", "second", "site"
WORKERS = (worker_id("p", 0, 0), worker_id("p", 0, 1))
JOB = "job"
PARTITIONS = 2


def step(state: FleetState, move: Move) -> tuple[FleetState, Transition | Refused]:
    """`state` after a move (the same object when refused), numbered and timed by what has happened."""
    seq = state.heads.get(move.session, 0) + 1
    at_us = 1 + sum(state.heads.values())
    made = decide(state, move, seq=seq, at_us=at_us, mono_ns=at_us * 1000)
    return (apply(state.copy(), made) if isinstance(made, Transition) else state), made


def worker_move(session: str, worker: str, new: Lifecycle) -> Move:
    """A move of a worker's lifecycle."""
    return Move(session, Entity.WORKER, worker, new, worker=worker)


def session_move(session: str, asker: str, new: Lifecycle) -> Move:
    """A move of a session."""
    return Move(asker, Entity.SESSION, session, new)


def job_move(session: str, new: Job, job: str = JOB) -> Move:
    """A move of the job."""
    detail = {"kind": "window-post", "partitions": PARTITIONS} if new == Job.QUEUED and session == SITE else {}
    return Move(session, Entity.JOB, job, new, job=job, detail=detail)


def attempt_move(
    session: str, partition: int, number: int, new: Attempt, worker: str | None = None, job: str = JOB
) -> Move:
    """A move of an attempt."""
    return Move(session, Entity.ATTEMPT, attempt_id(job, partition, number), new, job, partition, number, worker)


def opening() -> list[Move]:
    """The site queues the job; the first session has its workers online and runs it."""
    return [
        job_move(SITE, Job.QUEUED),
        session_move(FIRST, FIRST, Lifecycle.STARTING),
        session_move(FIRST, FIRST, Lifecycle.ONLINE),
        *(worker_move(FIRST, worker, Lifecycle.ONLINE) for worker in WORKERS),
        job_move(FIRST, Job.LOADING),
        job_move(FIRST, Job.RUNNING),
    ]


def play(moves: Iterable[Move]) -> tuple[Transition, ...]:
    """The transitions of moves that are all accepted, from the empty state."""
    state, made = FleetState(), []
    for move in moves:
        state, one = step(state, move)
        assert isinstance(one, Transition), one
        made.append(one)
    return tuple(made)


@dataclass(frozen=True)
class Universe:
    """Every move that anybody might ask for, sensible or not, within bounds."""

    attempts: int = 2  # at a partition
    partitions: int = PARTITIONS
    crash: bool = True  # the first session may be lost at any moment, and a second take over
    deaths: bool = False  # worker threads may die and come back

    def moves(self) -> Iterator[Move]:
        """All of them, by both sessions, so that late and duplicate ones are among them at every moment."""
        for session in (FIRST, SECOND) if self.crash else (FIRST,):
            yield from self._attempt_moves(session)
            yield from (job_move(session, new) for new in Job)
            if self.deaths:
                yield from (worker_move(session, w, new) for w in WORKERS for new in (Lifecycle.LOST, Lifecycle.ONLINE))

    def _attempt_moves(self, session: str) -> Iterator[Move]:
        for partition in range(self.partitions):
            for number in range(1, self.attempts + 1):
                for new in Attempt:
                    for worker in WORKERS if new == Attempt.CLAIMED else (None,):
                        yield attempt_move(session, partition, number, new, worker)


def crash(state: FleetState) -> list[Move]:
    """What the site writes, in one transaction, when the lease of the first session has run out."""
    if state.get(Entity.SESSION, FIRST).state != Lifecycle.ONLINE:
        return []
    mine = [name for name in open_attempts(state) if state.get(Entity.ATTEMPT, name).session == FIRST]
    lost = [view_move(state, name, Attempt.LOST) for name in mine]
    job = state.get(Entity.JOB, JOB)
    requeue = [job_move(SITE, Job.QUEUED)] if job.state in JOB_LEASED and job.session == FIRST else []
    there = [worker for worker in WORKERS if state.get(Entity.WORKER, worker).state == Lifecycle.ONLINE]
    workers = [worker_move(SITE, worker, Lifecycle.LOST) for worker in there]
    return [session_move(FIRST, SITE, Lifecycle.LOST), *workers, *lost, *requeue]


def takeover(state: FleetState) -> list[Move]:
    """The second session starts after the first was lost, and takes the job if it was queued again."""
    if state.get(Entity.SESSION, FIRST).state != Lifecycle.LOST or state.get(Entity.SESSION, SECOND).state:
        return []
    queued = state.get(Entity.JOB, JOB).state == Job.QUEUED
    job = [job_move(SECOND, Job.LOADING), job_move(SECOND, Job.RUNNING)] if queued else []
    return [
        session_move(SECOND, SECOND, Lifecycle.ONLINE),
        *(worker_move(SECOND, worker, Lifecycle.ONLINE) for worker in WORKERS),
        *job,
    ]


def view_move(state: FleetState, name: str, new: Attempt) -> Move:
    """A move that the site makes of an attempt."""
    view = state.get(Entity.ATTEMPT, name)
    return Move(SITE, Entity.ATTEMPT, name, new, view.job, view.partition, view.attempt_no)


#: ends that no guard tells apart
_ALIKE = {
    Attempt.DONE: "done", Attempt.FAILED: "unproven", Attempt.CANCELLED: "unproven",
    Attempt.SKIPPED: "elsewhere", Attempt.LOST: "elsewhere",
}  # fmt: skip


def words(state: FleetState) -> Hashable:
    """What a state is but for times, numbers and details: states with equal words behave alike.

    The workers are alike, so their names may be swapped; nothing asks who held an attempt that has ended, nor how one
    ended that has a successor.
    """
    return min(_words(state, WORKERS), _words(state, WORKERS[::-1]))


def _words(state: FleetState, workers: tuple[str, ...]) -> tuple[Hashable, ...]:
    number = {worker: str(n) for n, worker in enumerate(workers)}
    attempts = sorted(
        (name, _ALIKE[view.state] if state.latest[f"{view.job}:{view.partition}"] == view.attempt_no else "")
        if view.state in ATTEMPT_ENDS
        else (name, view.state, view.session, number.get(view.worker or "", ""), Attempt.READY in view.times)
        for name, view in state.views[Entity.ATTEMPT].items()
    )  # fmt: skip
    others = (
        (entity, number.get(name, name), view.state, view.session)
        for entity, views in state.views.items() if entity is not Entity.ATTEMPT
        for name, view in views.items()
    )  # fmt: skip
    return (tuple(attempts), tuple(sorted(others)))


# -- the model's invariants (numbered as in its specification), recomputed from the views -----------------------------


def fronts(state: FleetState, worker: str) -> list[str]:
    """The attempts that are the worker's front."""
    attempts = state.views[Entity.ATTEMPT].items()
    return [name for name, view in attempts if view.worker == worker and view.state in FRONT]


def open_attempts(state: FleetState) -> list[str]:
    """The attempts that have not ended."""
    return [name for name, view in state.views[Entity.ATTEMPT].items() if view.state not in ATTEMPT_ENDS]


def check(state: FleetState) -> None:
    """Assert every invariant that speaks of one state."""
    views = state.views[Entity.ATTEMPT]
    for worker in WORKERS:
        _check_worker(state, worker)
    assert sum(view.state == Attempt.DEVICE for view in views.values()) <= 1, "I2"
    cells = [name.rsplit(":", 1)[0] for name in open_attempts(state)]
    assert len(cells) == len(set(cells)), "I3"
    _check_gauges(state)
    _check_job(state)


def _check_worker(state: FleetState, worker: str) -> None:
    mine = fronts(state, worker)
    assert len(mine) <= 1, "I1"
    assert (state.front(worker) is None) == (not mine), "I4"
    online = state.get(Entity.WORKER, worker).state == Lifecycle.ONLINE
    assert (state.activity(worker) == Activity.PROVING) == (online and bool(mine)), "I4"
    if mine:
        assert state.busy_since_us(worker) == state.get(Entity.ATTEMPT, mine[0]).times[Attempt.CLAIMED], "I9"
    mine_too = {name for name in open_attempts(state) if state.get(Entity.ATTEMPT, name).worker == worker}
    assert set(mine) | set(state.finalizing(worker)) == mine_too
    session = state.get(Entity.WORKER, worker).session
    if online:
        assert all(state.get(Entity.ATTEMPT, name).session == session for name in mine_too), "I14"


def _check_gauges(state: FleetState) -> None:
    gauges, views = state.gauges(), state.views[Entity.ATTEMPT].values()
    assert gauges["synth_active"] == sum(view.state == Attempt.SYNTHESIZING for view in views), "I11"
    assert gauges["gpu_active"] == sum(len(fronts(state, worker)) for worker in WORKERS), "I11"
    assert gauges["finalizing"] == sum(len(state.finalizing(worker)) for worker in WORKERS), "I11"
    if not open_attempts(state):
        assert gauges["synth_active"] == gauges["gpu_active"] == gauges["finalizing"] == 0, "I11"


def _check_job(state: FleetState) -> None:
    job = state.get(Entity.JOB, JOB)
    if job.state == Job.DONE:
        assert not unproven(state, JOB), "I13"
    ended = {f"window-post {end}": 1 for end in (Job.DONE, Job.FAILED, Job.CANCELLED) if job.state == end}
    assert state.ended == ended, "I12"


def check_step(old: FleetState, t: Transition, new: FleetState) -> None:
    """Assert every invariant that speaks of a step."""
    before = old.get(t.entity, t.entity_id)
    assert not (t.entity is Entity.ATTEMPT and before.state in ATTEMPT_ENDS), "I10"
    view = new.get(t.entity, t.entity_id)
    assert view.state == t.new and view.times[t.new] == max(view.times.values()), "I10"
    for worker in WORKERS:
        front = old.front(worker)
        if front is not None and new.front(worker) == front:
            assert new.busy_since_us(worker) == old.busy_since_us(worker), "I9"
        if t.entity is Entity.ATTEMPT and new.get(Entity.ATTEMPT, t.entity_id).worker != worker:
            assert new.front(worker) == front and new.finalizing(worker) == old.finalizing(worker), "I7"
    if t.new == Attempt.CLAIMED:
        assert t.worker is not None and old.admin(t.worker) == Admin.ENABLED and old.front(t.worker) is None, "I20"


@dataclass(frozen=True)
class Visit:
    """A state that the search found, a way to it, and where accepted moves lead from it."""

    state: FleetState
    trace: tuple[Transition, ...]
    accepted: list[tuple[Move, FleetState]]
    leads_on: bool  # whether another state was first found from here


def search(universe: Universe, prefix: tuple[Transition, ...]) -> Iterator[Visit]:
    """Visit every state that is reachable from that of `prefix`.

    Moves that the table does not list are refused whatever else holds (a test of its own), so only listed ones are
    tried; refused ones change nothing: asserted.
    """
    moves = list(universe.moves())
    start = fold(prefix)
    seen = {words(start)}
    frontier = [(start, prefix)]
    while frontier:
        state, trace = frontier.pop()
        ways = [(move, way) for move in moves if (way := _try(state, move)) is not None]
        composites = [_all(state, crash(state)), _all(state, takeover(state))] if universe.crash else []
        before = len(frontier)
        for after, made in [*(way for _, way in ways), *composites]:
            if (key := words(after)) not in seen:
                seen.add(key)
                frontier.append((after, (*trace, *made)))
        yield Visit(state, trace, [(move, after) for move, (after, _) in ways], len(frontier) > before)


def is_accepted(state: FleetState, move: Move) -> bool:
    """Whether a move is accepted in a state."""
    return _try(state, move) is not None


Way = tuple[FleetState, tuple[Transition, ...]]


def _try(state: FleetState, move: Move) -> Way | None:
    if not state.get(Entity.SESSION, move.session).state:
        return None  # nobody speaks for a session that has not begun
    if not legal(move.entity, state.get(move.entity, move.entity_id).state, move.new):
        return None
    after, made = step(state, move)
    if isinstance(made, Refused):
        assert after is state
        return None
    check_step(state, made, after)
    return after, (made,)


def _all(state: FleetState, moves: list[Move]) -> Way:
    made: list[Transition] = []
    for move in moves:
        after, one = step(state, move)
        assert isinstance(one, Transition), one
        check_step(state, one, after)
        made.append(one)
        state = after
    return state, tuple(made)
