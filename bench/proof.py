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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import peer, prove

OUT = Path(__file__).resolve().parent / "out"
KINDS = ("window-post", "winning-post")
#: small enough for tables to pay
TABULATED = ("window-post",)
PROOFS = 5


def main() -> None:
    """Both circuits, and the peer where it is installed. Keys and the peer's input stay in bench/out."""
    OUT.mkdir(exist_ok=True)
    program = peer.build()
    for kind in KINDS:
        _print(kind, *_measure(kind, program))


def _measure(kind: str, program: Path | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as cache:
        first = _run(kind, "setup", cache)
        ours = _run(kind, "setup", cache)
        ours["first_setup_s"] = first["setup_s"]
        shutil.rmtree(cache)
        ours["cold_s"] = _run(kind, "load", cache)["compile_s"]
        theirs = [_peer(program, kind, 0)] if program else []
        with _session(kind, cache) as ask:
            ours |= ask("load")
            ours["plain"] = [_turn(ask, kind, program, theirs) for _ in range(PROOFS)]
            if kind in TABULATED:
                ours |= ask("tabulate")
                ours["tables"] = [_turn(ask, kind, program, theirs) for _ in range(PROOFS)]
            ours |= ask("memory")
    return ours, _merged(theirs) if theirs else None


def _turn(ask: Any, kind: str, program: Path | None, theirs: list[dict[str, Any]]) -> dict[str, Any]:
    """One proof of ours and one of the peer."""
    proof: dict[str, Any] = ask("prove")
    if program:
        theirs.append(_peer(program, kind, 1))
    return proof


def _peer(program: Path, kind: str, proofs: int) -> dict[str, Any]:
    """One run of the peer: a proof, or a set-up."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = prove.dump_path(OUT, kind), prove.params_path(OUT, kind)
    result = peer.measure(program, *files, proofs, setup=not proofs)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result["cpu_s"] = [after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]
    return result


def _merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The set-up of the first run, the proofs of the others."""
    lists = {name: [run[name][0] for run in runs[1:]] for name in ("prove_s", "verify_s", "cpu_s")}
    return {**lists, "setup_s": [runs[0]["setup_s"]], "setup_cpu_s": runs[0]["cpu_s"]}


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
    peers = theirs or {}
    head = ("ours", "(least)", "bellperson", "ratio") if theirs else ("ours", "(least)")
    print(f"\n{kind:24}" + "".join(f"{word:>12}" for word in head))
    for name in ("plain", "tables"):
        if name in ours:
            _row(f"whole proof, {name}", [proof["whole_s"] for proof in ours[name]], peers.get("prove_s"))
            _row("its CPU seconds", [proof["cpu_s"] for proof in ours[name]], peers.get("cpu_s"))
            _print_parts(ours[name])
    _row("verification", [proof["verify_s"] for proof in ours["plain"]], peers.get("verify_s"))
    _row("set-up", [ours["setup_s"]], peers.get("setup_s"))
    _row("its CPU seconds", [ours["setup_cpu_s"]], peers.get("setup_cpu_s"))
    print(f"the first set-up, compilation included, {ours['first_setup_s']:.1f}")
    print(f"compiled in {ours['cold_s']:.1f} at first, in {ours['compile_s']:.1f} from the disk cache")
    print(f"key mapped and digested in {ours['open_s']:.2f}, ready in {ours['key_s']:.2f}")
    if "tabulate_s" in ours:
        print(f"tables of {ours['tables_mib']:.0f} MiB made in {ours['tabulate_s']:.1f}")
    print(f"memory of the process: {ours['rss_mib']:.0f} MiB, {ours['peak_rss_mib']:.0f} at most", flush=True)


def _row(name: str, mine: list[float], other: list[float] | None) -> None:
    median = statistics.median(mine)
    line = f"{name:24}{median:12.4f}{min(mine):12.4f}"
    if other:
        line += f"{statistics.median(other):12.4f}{median / statistics.median(other):12.2f}"
    print(line)


def _print_parts(proofs: list[dict[str, Any]]) -> None:
    """Stages in brackets: those of the device phase run side by side."""
    parts = {name: statistics.median(proof["parts"][name] for proof in proofs) for name in proofs[0]["parts"]}
    print("    " + ", ".join(f"{name} {value:.3f}" for name, value in parts.items()), end="; ")
    print(f"synthesis / device {parts['synthesis'] / parts['device']:.2f}")


if __name__ == "__main__":
    main()
