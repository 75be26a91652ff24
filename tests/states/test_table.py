"""The table alone: what it does not list is refused, from every state, whatever else holds."""

from __future__ import annotations

import itertools

import pytest

from prover.states import ATTEMPT_ENDS, FRONT, JOB_ENDS, Attempt, Entity, FleetState, Move, Refused, View, decide, legal
from prover.states.table import TABLES


def decided(entity: Entity, old: str, new: str) -> object:
    state = FleetState()
    if old:
        state.views[entity]["x"] = View(state=old, session="s", job="j", partition=0, attempt_no=1)
    return decide(state, Move("s", entity, "x", new, "j", 0, 1), seq=1, at_us=1, mono_ns=1)


@pytest.mark.parametrize("entity", list(Entity))
def test_what_the_table_does_not_list_is_refused(entity: Entity) -> None:
    table = TABLES[entity]
    unlisted = [(old, new) for old, new in itertools.product(table, table) if new not in table[old]]
    assert unlisted
    for old, new in unlisted:
        if entity is Entity.ADMIN and not old:
            continue
        assert not legal(entity, old, new)
        assert isinstance(decided(entity, old, new), Refused), (entity, old, new)


def test_unknown_words_are_refused() -> None:
    assert not legal(Entity.JOB, "queued", "baked")
    assert not legal(Entity.JOB, "baked", "done")


@pytest.mark.parametrize("end", sorted(ATTEMPT_ENDS))
def test_no_attempt_leaves_its_end(end: Attempt) -> None:
    assert not TABLES[Entity.ATTEMPT][end]


@pytest.mark.parametrize("end", sorted(JOB_ENDS))
def test_no_job_leaves_its_end(end: str) -> None:
    assert not TABLES[Entity.JOB][end]


def test_every_open_attempt_can_be_lost_and_can_end_otherwise() -> None:
    for old, targets in TABLES[Entity.ATTEMPT].items():
        if old and old not in ATTEMPT_ENDS:
            assert Attempt.LOST in targets
            assert targets & (ATTEMPT_ENDS - {Attempt.LOST})


def test_front_and_tail_are_apart() -> None:
    assert Attempt.FINALIZING not in FRONT and not FRONT & ATTEMPT_ENDS
