"""`cuzk bench`: how fast provers prove, with the subcommands of the original's cuzk-bench, and mixed loads."""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prover.errors import InvalidInput

from .arguments import Parsers, add_database, cache_directory
from .exits import Exit
from .files import write_file

if TYPE_CHECKING:
    from .bench_load import Load, Report
    from .bench_targets import EngineTarget, Outcome, Target


class RateInvalid(InvalidInput):
    """A rate is written KIND=JOBS_A_SECOND."""

    code = "rate_invalid"


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "measure provers: one proof, many, or a mixed load"
    parser = parsers.add_parser("bench", help=text, description=text)
    parser.add_argument("-a", "--addr", metavar="ADDRESS", help="a prover's gRPC: http://HOST:PORT or unix:///PATH")
    add_database(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, add, run, about in (
        ("single", _no_more, single, "prove one request"),
        ("batch", _add_batch, batch, "prove a request several times, several at once"),
        ("preload", _add_preload, preload, "load a circuit's key (--addr)"),
        ("synth-only", _add_synthesis, synth_only, "synthesise here, without proving"),
        ("status", None, status, "a prover's status (--addr), or that of all"),
        ("metrics", None, metrics, "a prover's metrics (--addr)"),
        ("mixed", _add_mixed, mixed, "several kinds at given rates: latency, waits, gaps, truth"),
    ):
        command = commands.add_parser(name, help=about, description=about)
        if add in (_no_more, _add_batch, _add_synthesis):
            from .bench_requests import add_arguments

            add_arguments(command)
        if add is not None:
            add(command)
        command.set_defaults(run=run)


def _no_more(parser: argparse.ArgumentParser) -> None:
    pass


def _add_batch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--count", type=_positive, default=3, metavar="N", help="proofs (default 3)")
    parser.add_argument("-j", "--concurrency", type=_positive, default=1, metavar="N", help="at a time (default 1)")


def _add_preload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--circuit", required=True, metavar="CIRCUIT", help="as GetStatus names it: winning-2k")


def _add_synthesis(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--iterations", type=_positive, default=1, metavar="N")
    parser.add_argument("--threads", type=_positive, default=1, metavar="N", help="of one synthesis (default 1)")


def _add_mixed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", action="append", default=[], metavar="KIND=RATE", help="jobs a second; repeatable")
    parser.add_argument("--duration", type=float, default=30.0, metavar="SECONDS", help="of the load (default 30)")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="for its end (default 600)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of samples and arrivals (default 1)")
    parser.add_argument("--size", default="2KiB", metavar="SIZE", help="sector size (default 2KiB)")
    parser.add_argument("--workers", type=_numbers, metavar="N,...", help="a run each, on a prover started for it")
    parser.add_argument("--split", type=_switches, metavar="on,off", help="a run each, on a prover started for it")
    parser.add_argument("--set", action="append", default=[], dest="flags", metavar="SECTION.KEY=VALUE",
                        help="of those provers")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the reports as JSON")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="the device phases, drawn")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _numbers(text: str) -> list[int]:
    return [_positive(word) for word in text.split(",")]


def _switches(text: str) -> list[bool]:
    words = {"on": True, "off": False}
    return [words[word] for word in text.split(",")]


# -- one, and many ---------------------------------------------------------------------------------------------------


def single(arguments: argparse.Namespace) -> Exit:
    """One proof."""
    from .bench_requests import renamed, request

    target = _target(arguments)
    found = target.prove(next(renamed(request(arguments), _tag())))
    target.close()
    for line in _lines(found):
        print(line)
    return Exit.OK if found.completed else Exit.REFUSED


def batch(arguments: argparse.Namespace) -> Exit:
    """Several proofs; each thread has a connection of its own."""
    from .bench_requests import renamed, request

    requests = islice(renamed(request(arguments), _tag()), arguments.count)
    began = time.monotonic()
    found = list(_proved(arguments, requests))
    seconds = time.monotonic() - began
    for line in _summary(found, seconds):
        print(line)
    return Exit.OK if all(outcome.completed for outcome in found) else Exit.REFUSED


def _proved(arguments: argparse.Namespace, requests: Iterator[Any]) -> Iterator[Outcome]:
    """The outcomes as they come, each told by a line."""
    from concurrent.futures import ThreadPoolExecutor

    local, targets = threading.local(), []

    def begin() -> None:
        local.target = _target(arguments)
        targets.append(local.target)

    def prove(request: Any) -> Outcome:
        outcome: Outcome = local.target.prove(request)
        print(
            f"{outcome.job}: {outcome.status}, {outcome.wall_s:.2f} s (queue {outcome.queue_ms}, synth "
            f"{outcome.synthesis_ms}, gpu {outcome.gpu_ms} ms)", flush=True,
        )  # fmt: skip
        return outcome

    with ThreadPoolExecutor(arguments.concurrency, initializer=begin) as pool:
        yield from pool.map(prove, requests)
    for target in targets:
        target.close()


def _lines(found: Outcome) -> Iterator[str]:
    yield f"status      {found.status}" + (f": {found.error}" if found.error else "")
    yield f"job         {found.job}"
    yield f"total       {found.total_ms} ms"
    yield f"queue       {found.queue_ms} ms"
    yield f"srs load    {found.load_ms} ms"
    yield f"synthesis   {found.synthesis_ms} ms"
    yield f"gpu         {found.gpu_ms} ms"
    yield f"wall        {1e3 * found.wall_s:.0f} ms"
    yield f"proof       {len(found.proof)} bytes"
    if found.proof:
        yield f"            {found.proof.hex()}"


def _summary(found: list[Outcome], seconds: float) -> Iterator[str]:
    done = [outcome for outcome in found if outcome.completed]
    yield f"total {seconds:.1f} s, {len(done)} completed, {len(found) - len(done)} failed"
    if done:
        yield f"wall {_spread(outcome.wall_s for outcome in done)}"
        yield f"prove {_spread((outcome.total_ms - outcome.queue_ms) / 1e3 for outcome in done)}"
        yield f"throughput {60 * len(done) / seconds:.2f} proofs/min, {seconds / len(done):.2f} s/proof"


def _spread(values: Iterable[float]) -> str:
    found = list(values)
    return f"avg {statistics.mean(found):.2f} s, min {min(found):.2f} s, max {max(found):.2f} s"


# -- what a prover says ----------------------------------------------------------------------------------------------


def preload(arguments: argparse.Namespace) -> Exit:
    """Load a key."""
    from prover.filecoin.proto import cuzk_pb2 as pb

    found = _engine(arguments, "PreloadSRS", pb.PreloadSrsRequest(circuit_id=arguments.circuit), pb.PreloadSrsResponse)
    print("loaded already" if found.already_loaded else f"loaded in {found.load_time_ms} ms")
    return Exit.OK


def status(arguments: argparse.Namespace) -> Exit:
    """GetStatus, or `cuzk status` of all provers of the database."""
    if not arguments.addr:
        from . import status as of_all

        return of_all.run(argparse.Namespace(database=arguments.database, prover=None, json=False))
    from prover.filecoin.proto import cuzk_pb2 as pb

    found = _engine(arguments, "GetStatus", pb.GetStatusRequest(), pb.GetStatusResponse)
    print(
        f"uptime {found.uptime_seconds} s, {found.total_proofs_completed} completed, {found.total_proofs_failed} failed"
    )
    for gpu in found.gpus:
        print(f"GPU {gpu.ordinal} {gpu.name}: {f'{gpu.current_proof_kind} {gpu.current_job_id}'.strip() or 'idle'}")
    for key in found.loaded_srs:
        print(f"key {key.circuit_id}: {key.size_bytes / 2**20:.0f} MiB, {key.ref_count} in use")
    for queue in found.queues:
        print(f"{queue.proof_kind}: {queue.pending} pending, {queue.in_progress} in progress")
    return Exit.OK


def metrics(arguments: argparse.Namespace) -> Exit:
    """GetMetrics."""
    from prover.filecoin.proto import cuzk_pb2 as pb

    print(_engine(arguments, "GetMetrics", pb.GetMetricsRequest(), pb.GetMetricsResponse).prometheus_text, end="")
    return Exit.OK


def _engine(arguments: argparse.Namespace, method: str, message: Any, answer: Any) -> Any:
    from .bench_targets import EngineTarget, NeedsEngine

    if not arguments.addr:
        raise NeedsEngine()
    target: EngineTarget = EngineTarget(arguments.addr)
    try:
        return target.call(method, message, answer.FromString)
    finally:
        target.close()


def _target(arguments: argparse.Namespace) -> Target:
    from .bench_targets import DatabaseTarget, EngineTarget

    return EngineTarget(arguments.addr) if arguments.addr else DatabaseTarget(arguments.database)


def _tag() -> str:
    return str(time.time_ns() // 1_000_000)


# -- synthesis -------------------------------------------------------------------------------------------------------


def synth_only(arguments: argparse.Namespace) -> Exit:
    """All partitions of a request, over and over; nothing is proved. Raises what a request may have wrong."""
    from prover import jaxconf
    from prover.circuits.synthesis import Circuit
    from prover.filecoin.partitions import partitions

    from .bench_requests import request

    jaxconf.configure("cpu", cache_dir=cache_directory("jax"))
    parts = partitions(request(arguments))
    circuit = Circuit.load(parts[0].shape, cache_directory("circuits"))
    circuit.compile()
    print(f"{parts[0].shape.label}: {len(parts)} circuits of {circuit.matrices.num_constraints} constraints")
    walls = [_timed(lambda: [circuit.synthesize(p.instance, arguments.threads) for p in parts])
             for _ in range(arguments.iterations)]  # fmt: skip
    print(f"wall  {_spread(walls)}")
    print(f"synth {_spread(wall / len(parts) for wall in walls)} a circuit")
    return Exit.OK


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -- mixed -----------------------------------------------------------------------------------------------------------


def mixed(arguments: argparse.Namespace) -> Exit:
    """A run of the load for each setting that is asked for, or one with the fleet as it is."""
    from .bench_report import to_json, to_svg, to_table

    load = _load(arguments)
    reports = []
    for report in _runs(arguments, load):
        reports.append(report)
        if not arguments.json:
            print("\n".join(to_table(report)), flush=True)
    if arguments.json:
        print(json.dumps([to_json(report) for report in reports], indent=1))
    if arguments.svg is not None:
        write_file(arguments.svg, to_svg(reports).encode())
    whole = all(set(report.states) == {"done"} for report in reports)
    return Exit.OK if whole else Exit.REFUSED


def _runs(arguments: argparse.Namespace, load: Load) -> Iterator[Report]:
    from .bench_load import own_prover, run

    if arguments.workers is None and arguments.split is None:
        yield run(arguments.database, load, {})
        return
    own = dict(word.partition("=")[::2] for word in arguments.flags)
    for workers in arguments.workers or [2]:
        for split in arguments.split or [True]:
            settings = {"gpus.gpu_workers_per_device": str(workers), "pipeline.split": str(split).lower()}
            with own_prover(arguments.database, {**own, **settings}):
                yield run(arguments.database, load, {"workers": workers, "split": "on" if split else "off"})


def _load(arguments: argparse.Namespace) -> Load:
    """Raises RateInvalid, UnsupportedProof."""
    from prover.filecoin.request import parse_json

    from .bench_load import Load
    from .bench_requests import KINDS
    from .sample import sample_request

    rates = []
    for text in arguments.rate or ["window-post=0.5", "winning-post=0.5"]:
        name, _, rate = text.partition("=")
        if name not in KINDS or not _is_rate(rate):
            raise RateInvalid(f"{text!r}: KIND is one of {', '.join(sorted(KINDS))}", field="--rate")
        rates.append((parse_json(sample_request(KINDS[name], arguments.seed, arguments.size)), float(rate)))
    return Load(rates, arguments.duration, arguments.timeout, arguments.seed)


def _is_rate(text: str) -> bool:
    try:
        return 0 < float(text) <= 10_000
    except ValueError:
        return False
