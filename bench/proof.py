"""Whole proofs beside bellperson: the same circuit, witness, keys, machine and minute; ours and the peer's take turns.

`python -m bench proof [KIND ...] [OPTION ...]`; --help lists them. A whole proof is synthesis (witness, a, b, c),
device phase and tail; key, compilation and verification are apart. Times are seconds; CPU seconds are those of all
threads, and say more than wall time on a busy machine. Keys and bases stay in bench/out: those of the large circuits
take minutes, so they are made when they are absent, and the peer's set-up (a quarter of an hour) only with --setup.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import peer, prove
from bench.asked import ASKED, NOT_MEASURED, SYNTHESIS_SHARE, gib, markdown

OUT = Path(__file__).resolve().parent / "out"
#: memory for tables, in MiB, where --tables names no other
TABLES = {"window-post": 512}
#: whose set-ups take seconds: they are measured, cold and warm, each time
SMALL = ("window-post", "winning-post")
HEAD = (
    "circuit (2 KiB)", "bellperson, s: best (median)", "its peak", "ours, s: best (median)", "ratio of the best",
    "must", "goal", "synthesis", "peak", "asked",
)  # fmt: skip


class Ended(Exception):
    """A process of ours ended before it answered; it has said why."""


@dataclass(frozen=True)
class Plan:
    """What to measure of a circuit."""

    kind: str
    program: Path | None  # the peer's
    proofs: int
    setups: bool  # of both, whether the key is there or not
    tables: int | None  # MiB with which proofs are made as well
    platform: str = "cpu"


def main(arguments: Sequence[str] = ()) -> None:
    """The circuits, and the peer where it is installed; ends with the table of all."""
    options = _options(arguments)
    OUT.mkdir(exist_ok=True)
    program = None if options.no_peer else peer.build()
    rows = []
    for kind in options.kinds or (tuple(ASKED) if options.large else SMALL):
        tables = options.tables or TABLES.get(kind)
        plan = Plan(kind, program, options.proofs, options.setup or kind in SMALL, tables)
        found = measure(plan)
        _print(kind, found)
        rows += [row(kind, name, found) for name in ("plain", "tables") if name in found]
        print("\n" + markdown(HEAD, rows), flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench proof", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(ASKED)}; else {' and '.join(SMALL)}")
    parser.add_argument("--large", action="store_true", help="all four circuits")
    parser.add_argument(
        "--setup", action="store_true", help="time the set-ups of large circuits too, the peer's as well"
    )
    parser.add_argument("--tables", type=int, metavar="MIB", help="memory with which proofs are made once more")
    parser.add_argument("--proofs", type=int, default=3, help="of each; the best and the median are told")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    options = parser.parse_args(arguments)
    unknown = [kind for kind in options.kinds if kind not in ASKED]
    if unknown or options.proofs < 1:
        parser.error(f"no circuit {', '.join(unknown)}" if unknown else "at least one proof")
    return options


def measure(plan: Plan) -> dict[str, Any]:
    """Ours, each proof with the peer's that it took turns with; `peer_setup` where that was taken."""
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as cache:
        found = _setups(plan, cache)
        shutil.rmtree(cache, ignore_errors=True)
        cold = _run(plan, "load", cache)
        found |= {"cold_s": cold["compile_s"], "first_key_s": cold["key_s"]}
        if plan.program:
            _run(plan, "dump", cache)
            found |= {"peer_setup": _peer(plan, 0)} if plan.setups else {}
        with session(command(plan, "session", cache)) as ask:
            found |= ask("load")
            found["plain"] = [_turn(ask, plan) for _ in range(plan.proofs)]
            found |= ask("memory")
            if plan.tables:
                found |= ask(f"tabulate {plan.tables}")
                found["tables"] = [_turn(ask, plan) for _ in range(plan.proofs)]
                found["tables_peak_mib"] = ask("memory")["peak_mib"]
    return found


def _setups(plan: Plan, cache: str) -> dict[str, Any]:
    """The first set-up, whose programs are compiled in it, and the second; only the one that makes the key when no more
    is wanted, none when it is there."""
    if not plan.setups and prove.params_path(OUT, plan.kind).exists():
        return {}
    first = _run(plan, "setup", cache)
    if plan.kind not in SMALL:
        return first
    return _run(plan, "setup", cache) | {"first_setup_s": first["setup_s"]}


def _turn(ask: Any, plan: Plan) -> dict[str, Any]:
    """One proof of ours and one of the peer."""
    proof: dict[str, Any] = ask("prove")
    said = f"{plan.kind}: {proof['whole_s']:.2f} s"
    if plan.program:
        proof["peer"] = _peer(plan, 1)
        said += f", bellperson {proof['peer']['prove_s']:.2f} s"
    print(said, file=sys.stderr, flush=True)
    return proof


def _peer(plan: Plan, proofs: int) -> dict[str, Any]:
    """One run of the peer: a proof, or a set-up."""
    assert plan.program
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = prove.dump_path(OUT, plan.kind), prove.params_path(OUT, plan.kind)
    result = peer.measure(plan.program, *files, proofs, setup=not proofs)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result |= {name: result[name][0] for name in ("prove_s", "verify_s") if result[name]}
    return result | {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def command(plan: Plan, step: str, cache: str) -> list[str]:
    return [sys.executable, "-m", "bench.prove", plan.kind, step, str(OUT), cache, plan.platform]


def _run(plan: Plan, step: str, cache: str) -> dict[str, Any]:
    """One step in a process of its own."""
    answer = subprocess.run(command(plan, step, cache), check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


@contextmanager
def session(words: list[str]) -> Iterator[Any]:
    """A process that proves when it's asked, so that the peer can take turns with it."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout

        def ask(what: str) -> dict[str, Any]:
            assert process.stdin and process.stdout
            with suppress(BrokenPipeError):  # it is gone: so no line comes either
                process.stdin.write(what + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
            if not line.endswith("\n"):
                ended = Ended(f"exit status {process.wait()} when asked to {what}")
                ended.add_note(" ".join(words))
                raise ended
            answer: dict[str, Any] = json.loads(line)
            return answer

        try:
            yield ask
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()


def row(kind: str, name: str, found: dict[str, Any]) -> list[str]:
    """The circuit's row of the table of what is asked; `name`: plain, or with tables."""
    asked, proofs = ASKED[kind], found[name]
    mine, theirs = _of(proofs, "whole_s"), _of_peer(proofs, "prove_s")
    share = statistics.median(proof["parts"]["synthesis"] / proof["whole_s"] for proof in proofs)
    other = [_best(theirs), gib(max(_of_peer(proofs, "peak_mib")))] if theirs else [NOT_MEASURED] * 2
    return [
        asked.name if name == "plain" else f"the same, {found['tables_mib']:.0f} MiB of tables",
        *other, _best(mine), f"{min(mine) / min(theirs):.2f}" if theirs else NOT_MEASURED,
        f"<= {asked.must:g}", f"<= {asked.goal:g}", f"{share:.1%} (<= {SYNTHESIS_SHARE:.0%})",
        gib(found["peak_mib" if name == "plain" else "tables_peak_mib"]), f"< {asked.peak_gib:g} GiB",
    ]  # fmt: skip


def _of(proofs: list[dict[str, Any]], name: str) -> list[float]:
    return [proof[name] for proof in proofs]


def _of_peer(proofs: list[dict[str, Any]], name: str) -> list[float]:
    """None of it where there is no peer."""
    return [proof["peer"][name] for proof in proofs if "peer" in proof]


def _best(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} ({statistics.median(seconds):.2f})"


def _print(kind: str, found: dict[str, Any]) -> None:
    head = ("ours", "(least)", *(("bellperson", "(least)", "ratio") if "peer" in found["plain"][0] else ()))
    print(f"\n{kind:24}" + "".join(f"{word:>12}" for word in head))
    for name in ("plain", "tables"):
        if name in found:
            proofs = found[name]
            _row(f"whole proof, {name}", _of(proofs, "whole_s"), _of_peer(proofs, "prove_s"))
            _row("its CPU seconds", _of(proofs, "cpu_s"), _of_peer(proofs, "cpu_s"))
            _print_parts(proofs)
    _row("verification", _of(found["plain"], "verify_s"), _of_peer(found["plain"], "verify_s"))
    _print_setup(found)
    print(f"compiled in {found['cold_s']:.1f} at first, in {found['compile_s']:.1f} from the disk cache")
    print(f"bases made (or, if they were there, mapped) in {found['first_key_s']:.1f}")
    print(f"key mapped and digested in {found['open_s']:.2f}, its bases mapped and digested in {found['key_s']:.2f}")
    if "tabulate_s" in found:
        print(f"tables, {found['tables_mib']:.0f} MiB with the bases, made or mapped in {found['tabulate_s']:.1f}")
    print(
        f"memory of the process: {found['peak_mib']:.0f} MiB at most; {found['rss_mib']:.0f} after the proofs, "
        f"{found['anonymous_mib']:.0f} of it its own, the others mapped files"
    )


def _print_setup(found: dict[str, Any]) -> None:
    if "setup_s" not in found:
        print("set-up not measured: the key in bench/out was used")
        return
    peers = [found["peer_setup"]] if "peer_setup" in found else []
    _row("set-up", [found["setup_s"]], _of(peers, "setup_s"))
    _row("its CPU seconds", [found["setup_cpu_s"]], _of(peers, "cpu_s"))
    print(f"its peak memory {found['setup_peak_mib']:.0f} MiB")
    if "first_setup_s" in found:
        print(f"the first set-up, compilation included, {found['first_setup_s']:.1f}")


def _row(name: str, mine: list[float], other: list[float]) -> None:
    """Medians and least values; the ratio is that of the medians."""
    median = statistics.median(mine)
    line = f"{name:24}{median:12.4f}{min(mine):12.4f}"
    if other:
        line += f"{statistics.median(other):12.4f}{min(other):12.4f}{median / statistics.median(other):12.2f}"
    print(line)


def _print_parts(proofs: list[dict[str, Any]]) -> None:
    """Stages in brackets: those of the device phase run side by side."""
    parts = {name: statistics.median(proof["parts"][name] for proof in proofs) for name in proofs[0]["parts"]}
    print("    " + ", ".join(f"{name} {value:.3f}" for name, value in parts.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
