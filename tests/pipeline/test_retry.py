"""The table of retries, as a table: which error is made again, when, where, and at whose cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.commands.errors import catalogue
from prover.errors import InternalError, InvalidInput, InvalidRequest
from prover.pipeline.device_faults import DeviceLost, DeviceOutOfMemory
from prover.pipeline.kinds import DeviceFailed, ProofRefused
from prover.pipeline.later import Later
from prover.pipeline.retry import (
    MAX_DEVICE_LOSSES,
    MAX_PAUSE_S,
    RULES,
    Made,
    RetryPolicy,
    rule_of,
    suits,
    words,
)

W = [f"prover/{device}/{sub}" for device in range(2) for sub in range(2)]


def pauses(error: BaseException, policy: RetryPolicy) -> list[float]:
    """All pauses until the partition is given up."""
    made, said = Made(), []
    while (pause := policy.pause_s(error, made)) is not None:
        rule = rule_of(error)
        assert rule is not None
        said.append(pause)
        made = made.and_again(rule)
    return said


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidRequest("bad leaf"), []),
        (InternalError("?"), []),
        (ZeroDivisionError(), []),
        (DeviceFailed(), [1.0, 2.0]),
        (DeviceOutOfMemory(), [2.0, 4.0]),
        (ProofRefused(), [0.0, 0.0]),
        (DeviceLost(), [0.0] * MAX_DEVICE_LOSSES),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_cause_has_its_pauses(error: BaseException, expected: list[float]) -> None:
    assert pauses(error, RetryPolicy()) == expected


def test_pauses_double_up_to_a_bound() -> None:
    said = pauses(DeviceFailed(), RetryPolicy(max_retries=10))
    assert said[:4] == [1.0, 2.0, 4.0, 8.0] and said[-1] == MAX_PAUSE_S and len(said) == 10


def test_a_missing_device_costs_no_retry() -> None:
    lost = rule_of(DeviceLost())
    assert lost is not None
    made = Made().and_again(lost).and_again(lost)
    assert made.retries == 0 and RetryPolicy().pause_s(DeviceFailed(), made) == 1.0


def test_the_table_and_the_marks_of_errors_agree() -> None:
    known = catalogue()
    for code in RULES:
        assert known[code].retryable, code
    for error in known.values():
        assert not (issubclass(error, InvalidInput) and rule_of(error)), "bad input never succeeds the second time"
        assert bool(words(error)) == error.retryable


workers = st.sampled_from(W)


@given(avoid=st.frozensets(workers), able=st.frozensets(workers, min_size=1))
def test_somebody_who_is_able_always_takes_what_failed_elsewhere(avoid: frozenset[str], able: frozenset[str]) -> None:
    takers = {worker for worker in able if suits(worker, avoid, able)}
    assert takers
    if able - avoid:
        assert not takers & avoid
    devices = {worker.rpartition("/")[0] for worker in avoid}
    if other := {worker for worker in able if worker.rpartition("/")[0] not in devices}:
        assert takers == other


def test_what_is_closed_makes_no_call() -> None:
    later, made = Later(), []
    later.call(0, lambda: made.append(0))
    later.call(60, lambda: made.append(1))
    later.close()
    later.call(0.001, lambda: made.append(2))
    assert made == [0]
