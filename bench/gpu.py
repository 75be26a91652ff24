"""The proofs of all four circuits on a GPU, within a time: run by bench/gpu.sh. Without a GPU it needs Python alone."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench.asked import ASKED, NOT_MEASURED, gib, markdown
from prover.stack.install import has_nvidia_gpu

if TYPE_CHECKING:
    from bench.proof import Plan

NO_GPU = 3
PROOFS = 3
#: what cargo and the peer's proofs need
PEER_SECONDS = 60
#: whose proofs the peer makes in seconds
PEER_KINDS = ("window-post", "winning-post")
HEAD = (
    "circuit (2 KiB)", "on", "s: best (median)", "synthesis", "device phase", "tail", "device memory", "of the process",
    "bellperson, 2 threads of a Zen 3, s", "ratio", "bellperson here, 2 threads, s", "ratio",
)  # fmt: skip


class OutOfTime(Exception):
    """A step did not end in the time that was left."""


@dataclass
class Clock:
    """The seconds that are left."""

    end: float

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def limited(self, words: list[str]) -> list[str]:
        """A command that is ended when they are over."""
        if self.left < 1:
            raise OutOfTime("no time left")
        return ["timeout", "-k", "2", f"{self.left:.0f}", *words]


def main(arguments: Sequence[str] = ()) -> int:
    """Print the table; returns the exit status."""
    if arguments:
        sys.exit(f"{arguments[0]!r}: bench/gpu.sh takes its settings from the environment")
    platform = os.environ.get("CUZK_BENCH_PLATFORM", "gpu")
    if platform == "gpu" and not has_nvidia_gpu():
        print(markdown(HEAD, [missing(kind, "no GPU here") for kind in ASKED]))
        print("no NVIDIA GPU here (no driver in /proc/driver/nvidia, none listed by nvidia-smi): nothing was measured")
        return NO_GPU
    clock = Clock(time.monotonic() + float(os.environ.get("CUZK_BENCH_SECONDS", "290")))
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as cache:
        rows, done = measured(platform, cache, clock)
    print(markdown(HEAD, rows))
    print(f"keys made here; {PROOFS} proofs each, every one verified; a ratio below 1 is faster than bellperson")
    return 0 if done else 1


def missing(kind: str, reason: str) -> list[str]:
    asked = ASKED[kind]
    return [asked.name, reason, NOT_MEASURED, *["-"] * 5, asked.stated, "-", NOT_MEASURED, "-"]


def measured(platform: str, cache: str, clock: Clock) -> tuple[list[list[str]], bool]:
    """The rows, and whether proofs were made and nothing failed. Ours first: the peer gets the time that is left."""
    from bench.proof import Ended, Plan

    kinds = list(ASKED) if platform == "gpu" else ["window-post"]
    found: dict[str, dict[str, Any] | str] = {}
    failed = False
    for kind in kinds:
        try:
            found[kind] = ours(Plan(kind, None, PROOFS, False, None, platform), cache, clock)
        except OutOfTime as error:
            found[kind] = str(error)
        except Ended as error:
            found[kind], failed = f"failed: {error}", True
        print(f"{kind}: {found[kind]}", file=sys.stderr, flush=True)
    peers = theirs([kind for kind in kinds if kind in PEER_KINDS and isinstance(found[kind], dict)], cache, clock)
    rows = [
        _row(kind, one, peers.get(kind)) if isinstance(one, dict) else missing(kind, one) for kind, one in found.items()
    ]
    return rows, not failed and any(isinstance(one, dict) for one in found.values())


def ours(plan: Plan, cache: str, clock: Clock) -> dict[str, Any]:
    """Some proofs, as many as there is time for but one at least. Raises OutOfTime or Ended: both say where."""
    from bench.proof import OUT, Ended, command, session
    from bench.prove import params_path

    OUT.mkdir(exist_ok=True)
    if not params_path(OUT, plan.kind).exists():
        _key(plan, cache, clock)
    found: dict[str, Any] = {"proofs": []}
    step = "load"
    try:
        with session(clock.limited(command(plan, "session", cache))) as ask:
            found |= ask("load")
            step = "prove"
            while len(found["proofs"]) < PROOFS and (not found["proofs"] or clock.left > 2 * _last(found)):
                found["proofs"].append(ask("prove"))
                found |= ask("memory")
    except Ended as error:
        if clock.left > 2:
            raise
        if not found["proofs"]:
            where = "its key was loaded" if step == "load" else "its first proof"
            raise OutOfTime(f"the time was over during {where}") from error
    return found


def _last(found: dict[str, Any]) -> float:
    return float(found["proofs"][-1]["whole_s"])


def _key(plan: Plan, cache: str, clock: Clock) -> None:
    """Made on all cores of the host: the minutes of a large circuit may not be there."""
    from bench.proof import Ended, command

    print(f"{plan.kind}: making its key, {clock.left:.0f} s left", file=sys.stderr, flush=True)
    words = command(replace(plan, platform="cpu"), "setup", cache)
    environment = os.environ | {"CUZK_BENCH_THREADS": str(max(2, os.cpu_count() or 2))}
    done = subprocess.run(clock.limited(words), env=environment, stdout=subprocess.DEVNULL)
    if done.returncode and clock.left < 2:
        raise OutOfTime("the time was over while its key was made (`python -m bench.prove` makes it without a limit)")
    if done.returncode:
        raise Ended(f"exit status {done.returncode} while its key was made")


def theirs(kinds: list[str], cache: str, clock: Clock) -> dict[str, float]:
    """The peer's best of some proofs on this host, where cargo is and time is left."""
    from bench import peer
    from bench.proof import OUT, Plan, command
    from bench.prove import dump_path, params_path

    found: dict[str, float] = {}
    try:
        program = peer.build(clock.left) if kinds and clock.left > PEER_SECONDS else None
        for kind in kinds if program else ():
            assert program
            plan = Plan(kind, program, PROOFS, False, None)
            subprocess.run(clock.limited(command(plan, "dump", cache)), check=True, stdout=subprocess.DEVNULL)
            result = peer.measure(program, dump_path(OUT, kind), params_path(OUT, kind), 2, limit=clock.left)
            found[kind] = min(result["prove_s"])
    except (OutOfTime, subprocess.SubprocessError) as error:
        print(f"the peer was not measured to the end: {error}", file=sys.stderr)
    return found


def _row(kind: str, found: dict[str, Any], peer_s: float | None) -> list[str]:
    asked, proofs = ASKED[kind], found["proofs"]
    seconds = [proof["whole_s"] for proof in proofs]
    parts = {name: statistics.median(proof["parts"][name] for proof in proofs) for name in proofs[0]["parts"]}
    stages = ", ".join(f"{name[1:-1]} {parts[name]:.2f}" for name in ("[transforms]", "[h]", "[l]", "[a]", "[b_g1]"))
    best = min(seconds)
    return [
        asked.name, found["device"], f"{best:.2f} ({statistics.median(seconds):.2f})", f"{parts['synthesis']:.2f}",
        f"{parts['device']:.2f} ({stages})", f"{parts['tail']:.2f}",
        *_memory(found),
        asked.stated, f"{best / max(asked.stated_s):.2f}",
        NOT_MEASURED if peer_s is None else f"{peer_s:.2f}", "-" if peer_s is None else f"{best / peer_s:.2f}",
    ]  # fmt: skip


def _memory(found: dict[str, Any]) -> tuple[str, str]:
    """The device's and the process's; the time may have been over before they were asked for."""
    if "peak_mib" not in found:
        return NOT_MEASURED, NOT_MEASURED
    return gib(found["device_peak_mib"]) if "device_peak_mib" in found else "the host's", gib(found["peak_mib"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
