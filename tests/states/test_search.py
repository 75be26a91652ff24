"""Every state of the small world: all invariants hold in each, and the end of a tail commutes with the next claim."""

from __future__ import annotations

import pytest

from prover.states import Attempt, Entity, FleetState, Move, Transition
from tests.states.world import Universe, check, opening, play, search, step, words


@pytest.mark.parametrize(
    "universe",
    [
        pytest.param(Universe(attempts=2, partitions=1, deaths=True), id="1 partition, retry, crash, deaths"),
        pytest.param(Universe(attempts=2, partitions=2), id="2 partitions, retry, crash"),
    ],
)
def test_every_reachable_state_keeps_the_invariants(universe: Universe, capsys: pytest.CaptureFixture[str]) -> None:
    states = steps = pairs = 0
    for visit in search(universe, play(opening())):
        check(visit.state)
        pairs += check_commutation(visit.state, visit.accepted)
        states, steps = states + 1, steps + len(visit.accepted)
    with capsys.disabled():
        print(f"\n{states} states, {steps} accepted moves, {pairs} pairs of a tail's end and a claim: ", end="")
    assert states > 1000 and (pairs > 100 or universe.partitions == 1)


def check_commutation(state: FleetState, accepted: list[tuple[Move, FleetState]]) -> int:
    """I5: a tail ends before or after a claim, the outcome is the same; how many pairs were tried."""
    tails = [move for move, _ in accepted if _is_end_of_tail(state, move)]
    claims = [move for move, _ in accepted if move.new == Attempt.CLAIMED]
    for tail in tails:
        for claim in claims:
            one, other = _after(state, tail, claim), _after(state, claim, tail)
            assert words(one) == words(other)
            assert one.front(claim.worker or "") == other.front(claim.worker or "") == claim.entity_id
    return len(tails) * len(claims)


def _is_end_of_tail(state: FleetState, move: Move) -> bool:
    return move.entity is Entity.ATTEMPT and state.get(Entity.ATTEMPT, move.entity_id).state == Attempt.FINALIZING


def _after(state: FleetState, *moves: Move) -> FleetState:
    for move in moves:
        state, made = step(state, move)
        assert isinstance(made, Transition), made
    return state
