"""The fold: replaying gives the state, twice changes nothing, and only the order within a thing matters."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from prover.states import ATTEMPT_ENDS, Entity, FleetState, Job, Move, Transition, apply, fold, from_json
from tests.states.traces import derived
from tests.states.world import SITE, Universe, crash, is_accepted, job_move, opening, play, step, takeover

MOVES = list(Universe(deaths=True).moves())


@st.composite
def walks(draw: st.DrawFn) -> tuple[Transition, ...]:
    """A random life of the small world: any accepted moves, with a crash and a takeover now and then."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    log = list(play(opening()))
    state = fold(log)
    for _ in range(draw(st.integers(5, 60))):
        moves = _next_moves(rng, state)
        for move in moves:
            state, made = step(state, move)
            log.append(made)
    return tuple(log)


def _next_moves(rng: random.Random, state: FleetState) -> list[Move]:
    """Mostly a move of an attempt, seldom the end of the job, sometimes a crash."""
    if rng.random() < 0.05:
        return crash(state) or takeover(state)
    forward = rng.random() < 0.7
    for move in rng.sample(MOVES, len(MOVES)):
        ahead = move.entity is Entity.ATTEMPT and move.new not in ATTEMPT_ENDS
        if (ahead or not forward) and is_accepted(state, move):
            return [move]
    return []


def things(t: Transition) -> tuple[str, str]:
    return (t.entity, t.entity_id)


def shuffled(log: tuple[Transition, ...], rng: random.Random, group) -> list[Transition]:  # type: ignore[no-untyped-def]
    """A random order of the log that keeps the order within each group."""
    lanes: dict[object, list[Transition]] = {}
    for t in log:
        lanes.setdefault(group(t), []).append(t)
    out = []
    while lanes:
        name = rng.choice(sorted(lanes, key=str))
        out.append(lanes[name].pop(0))
        if not lanes[name]:
            del lanes[name]
    return out


@settings(deadline=None, max_examples=60)
@given(walks())
def test_replay_gives_the_state_step_by_step(log: tuple[Transition, ...]) -> None:
    state = FleetState()
    for t in log:
        apply(state, t)
    assert fold(log) == state
    assert fold(Transition.from_row(t.to_row()) for t in log) == state


@settings(deadline=None, max_examples=60)
@given(walks(), st.randoms(use_true_random=False))
def test_applying_anything_again_changes_nothing(log: tuple[Transition, ...], rng: random.Random) -> None:
    state = fold(log)
    again = state.copy()
    for t in rng.sample(log, len(log)):
        apply(again, t)
    assert again == state


@settings(deadline=None, max_examples=60)
@given(walks(), st.randoms(use_true_random=False))
def test_only_the_order_within_a_thing_matters(log: tuple[Transition, ...], rng: random.Random) -> None:
    assert fold(shuffled(log, rng, things)) == fold(log)


@settings(deadline=None, max_examples=60)
@given(walks(), st.randoms(use_true_random=False))
def test_rows_of_several_sessions_may_arrive_in_any_order(log: tuple[Transition, ...], rng: random.Random) -> None:
    """Each session's rows are in order, as a reader by (session, seq) has them; the sessions are mixed at will."""
    mixed, straight = fold(shuffled(log, rng, lambda t: t.session)), fold(log)
    assert _shown(mixed) == _shown(straight)
    assert derived(mixed) == derived(straight)


def _shown(state: FleetState) -> dict[object, object]:
    return {
        (entity, name): (view.state, view.session, view.seq, view.times, view.worker, view.since_us)
        for entity, views in state.views.items()
        for name, view in views.items()
    }


@settings(deadline=None, max_examples=60)
@given(walks(), st.data())
def test_a_snapshot_and_the_rest_give_the_whole(log: tuple[Transition, ...], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    overlap = data.draw(st.integers(0, cut))
    snapshot = from_json(fold(log[:cut]).to_json())
    assert fold(log[overlap:], snapshot) == fold(log)


def test_a_copy_is_independent() -> None:
    log = play(opening())
    state = fold(log)
    copy = state.copy()
    _, made = step(copy, job_move("first", Job.FAILED))
    assert isinstance(made, Transition)
    apply(copy, made)
    assert state == fold(log) and copy != state


def test_a_job_that_was_queued_again_is_not_brought_back_by_rows_that_come_late() -> None:
    log = list(play(opening()))
    state = fold(log)
    moves = crash(state)
    for move in moves:
        state, made = step(state, move)
        assert isinstance(made, Transition)
        log.append(made)
    site = [t for t in log if t.session == SITE]
    others = [t for t in log if t.session != SITE]
    late = fold([*site, *others])
    assert late.get(Entity.JOB, "job").state == Job.QUEUED
    assert late.get(Entity.JOB, "job").detail["kind"] == "window-post"
    assert fold([*others, *site]).get(Entity.JOB, "job").state == Job.QUEUED
