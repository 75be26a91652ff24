"""What becomes of an attempt that failed: a table from its error's code to a rule. Pure.

Bad input never succeeds the second time, so it is never made again. What a device did wrong may come out right: after a
pause that doubles, at most `max_retries` times a partition. A device that is missing costs no retry at all, since the
partition has no part in it; only a partition under which devices vanish again and again is given up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..errors import CuzkError

MAX_RETRIES = 2  # automatic ones: of a partition in a session, and of a job whose session was lost
MAX_DEVICE_LOSSES = 5  # of a partition in a session; more, and it is taken to be the partition's doing
MAX_PAUSE_S = 60.0
QUARANTINE_AFTER = 3  # failures of a worker in a row
PROBE_EVERY_S = 5.0  # of a device that is lost


@dataclass(frozen=True, slots=True)
class Rule:
    """How an attempt that ended with an error is made again."""

    first_s: float = 1.0  # the pause before the first retry; each further one is twice as long
    spends: bool = True  # whether it uses up one of the partition's retries
    elsewhere: bool = False  # on another worker, and another device, where one takes work
    smaller: bool = False  # with half of the device's chunk
    blames: bool = False  # whether it counts against the worker (`quarantine`)


#: codes of errors that may come out right; those that are marked retryable and not named here follow PLAIN
RULES: Mapping[str, Rule] = {
    "device_failed": Rule(blames=True),
    "device_out_of_memory": Rule(first_s=2.0, smaller=True, blames=True),
    "device_lost": Rule(first_s=0.0, spends=False, blames=True),
    "proof_refused": Rule(first_s=0.0, elsewhere=True, blames=True),
    "worker_died": Rule(blames=True),
    "key_not_made": Rule(first_s=5.0),
}
PLAIN = Rule()


def rule_of(error: BaseException | type[CuzkError]) -> Rule | None:
    """The rule for an error, or for a class of errors; None for what is never made again."""
    if not getattr(error, "retryable", False):
        return None
    return RULES.get(getattr(error, "code", ""), PLAIN)


@dataclass(frozen=True, slots=True)
class Made:
    """What was made again of a partition so far, in this session."""

    retries: int = 0
    device_losses: int = 0

    def and_again(self, rule: Rule) -> Made:
        """With one more by `rule`."""
        return Made(self.retries + rule.spends, self.device_losses + (not rule.spends))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon. `unit_s` is the length of a rule's second: 0 makes everything again at once."""

    max_retries: int = MAX_RETRIES
    unit_s: float = 1.0

    def pause_s(self, error: BaseException, made: Made) -> float | None:
        """Seconds to wait before the partition is tried again; None when it is not."""
        rule = rule_of(error)
        if rule is None or (rule.spends and made.retries >= self.max_retries):
            return None
        if made.device_losses >= MAX_DEVICE_LOSSES:
            return None
        return min(self.unit_s * rule.first_s * float(2**made.retries), MAX_PAUSE_S)


def suits(worker: str, avoid: Collection[str], able: Collection[str]) -> bool:
    """Whether `worker` may take a partition that failed on the workers `avoid`: none that is `able` is better.

    A worker of another device is best, then another one of the same device. Identities are prover/ordinal/sub.
    """
    return not avoid or _rank(worker, avoid) <= min((_rank(other, avoid) for other in able), default=0)


def _rank(worker: str, avoid: Collection[str]) -> int:
    if worker in avoid:
        return 2
    return int(_device(worker) in {_device(other) for other in avoid})


def _device(worker: str) -> str:
    return worker.rpartition("/")[0]


def words(error: type[CuzkError]) -> str:
    """What docs/errors.md says of an error's retries; empty for what is never made again."""
    rule = rule_of(error)
    if rule is None:
        return ""
    said = ["again"]
    if rule.elsewhere:
        said.append("on another worker first")
    if rule.smaller:
        said.append("in chunks of half the size")
    if not rule.spends:
        return ", ".join([*said, "at no cost: its worker is away until the device is back"])
    return ", ".join([*said, f"after {rule.first_s:g} s and {2 * rule.first_s:g} s" if rule.first_s else "at once"])
