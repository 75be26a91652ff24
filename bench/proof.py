"""Whole proofs beside bellperson: the same circuit, witness, keys, machine and minute; ours and the peer's take turns.

A whole proof is synthesis (witness, a, b, c), device phase and tail; key, compilation and verification are apart. Times
are medians in seconds; CPU seconds are those of all threads, and say more than wall time on a busy machine.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import peer, prove

OUT = Path(__file__).resolve().parent / "out"
KINDS = ("window-post", "winning-post")
PROOFS = 5


def main() -> None:
    """Both circuits, and the peer where it is installed. Keys and the peer's input stay in bench/out."""
    OUT.mkdir(exist_ok=True)
    program = peer.build()
    for kind in KINDS:
        _print(kind, *_measure(kind, program))


def _measure(kind: str, program: Path | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as cache:
        made = _run(kind, "setup", cache)
        shutil.rmtree(cache)
        cold = _run(kind, "compile", cache)
        with _session(kind, cache) as ask:
            ours = {**ask("ready"), "cold": cold, "setup_s": made["setup_s"], "proofs": []}
            theirs: list[dict[str, Any]] = []
            for i in range(PROOFS):
                ours["proofs"].append(ask("prove"))
                if program:
                    theirs.append(_peer_once(program, kind, setup=i == 0))
            ours |= ask("memory")
    return ours, _merged(theirs) if theirs else None


def _peer_once(program: Path, kind: str, setup: bool) -> dict[str, Any]:
    circuit, params = prove.dump_path(OUT, kind), prove.params_path(OUT, kind)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = peer.measure(program, circuit, params, 1)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result["cpu_s"] = [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]
    if setup:
        result["setup_s"] = peer.measure(program, circuit, params, 0, setup=True)["setup_s"]
    return result


def _merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    lists = {name: [run[name][0] for run in runs] for name in ("prove_s", "verify_s", "cpu_s")}
    return {**lists, "setup_s": runs[0]["setup_s"]}


def _command(kind: str, step: str, cache: str) -> list[str]:
    return [sys.executable, "-m", "bench.prove", kind, step, str(OUT), cache]


def _run(kind: str, step: str, cache: str) -> dict[str, Any]:
    """One step in a process of its own."""
    answer = subprocess.run(_command(kind, step, cache), check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


@contextmanager
def _session(kind: str, cache: str) -> Iterator[Any]:
    """A process that proves when it's asked, so that the peer can take turns with it."""
    with subprocess.Popen(
        _command(kind, "session", cache), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout

        def ask(what: str) -> dict[str, Any]:
            assert process.stdin and process.stdout
            process.stdin.write(what + "\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer

        yield ask
        process.stdin.close()


def _print(kind: str, ours: dict[str, Any], theirs: dict[str, Any] | None) -> None:
    proofs = ours["proofs"]
    whole = [proof["whole_s"] for proof in proofs]
    rows = {
        "whole proof": (whole, theirs and theirs["prove_s"]),
        "  its CPU seconds": ([proof["cpu_s"] for proof in proofs], theirs and theirs["cpu_s"]),
        "set-up": ([ours["setup_s"]], theirs and [theirs["setup_s"]]),
        "verification": ([proof["verify_s"] for proof in proofs], theirs and theirs["verify_s"]),
    }
    print(f"\n{kind} ({time.strftime('%H:%M')})\n{'':20}{'ours':>10}{'(least)':>10}{'bellperson':>12}{'ratio':>8}")
    for name, (mine, other) in rows.items():
        line = f"{name:20}{statistics.median(mine):10.4f}{min(mine):10.4f}"
        if other:
            line += f"{statistics.median(other):12.4f}{statistics.median(mine) / statistics.median(other):8.2f}"
        print(line)
    _print_parts(ours)


def _print_parts(ours: dict[str, Any]) -> None:
    proofs = ours["proofs"]
    parts = {name: statistics.median(proof["parts"][name] for proof in proofs) for name in proofs[0]["parts"]}
    device, synthesis = parts["device"], parts["synthesis"]
    print("parts: " + ", ".join(f"{name} {value:.3f}" for name, value in parts.items()))
    print(f"synthesis / device {synthesis / device:.3f}")
    print(f"compile: first {ours['cold']['compile_s']:.1f}, from the disk cache {ours['compile_s']:.1f}")
    print(
        f"key: map and check {ours['open_s']:.2f}, make ready {ours['key_s']:.2f}, tables {ours['tables_mib']:.0f} MiB"
    )
    print(f"memory of the process: {ours['rss_mib']:.0f} MiB now, {ours['peak_rss_mib']:.0f} at most")


if __name__ == "__main__":
    main()
