"""A mixed load over a database: several kinds at given rates, looks at the fleet meanwhile, and the report."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from prover.errors import CuzkError, InvalidInput
from prover.filecoin.request import ProofRequest
from prover.journal.client import Client
from prover.journal.connection import connect

from . import bench_measures as measures
from .bench_requests import renamed

LOOK_EVERY_S = 0.5
START_S = 120.0  # a prover that is started for a run is online sooner
_JOBS = """SELECT kind, state, to_us(submitted_at), (times ->> 'loading')::bigint, to_us(ended_at)
    FROM job WHERE request_id LIKE %s"""
_OPEN = "SELECT count(*) FROM job WHERE request_id LIKE %s AND ended_at IS NULL"
_ATTEMPTS = """SELECT a.worker_id, a.times FROM attempt a JOIN session s ON s.id = a.session_id
    WHERE a.worker_id IS NOT NULL AND a.times ? 'claimed' AND a.state_at >= from_us(%s)"""
_EVENTS = "SELECT count(*) FROM transition WHERE at BETWEEN from_us(%s) AND from_us(%s)"


class NoProver(CuzkError):
    """No prover of this database is online."""

    code = "no_prover"


class ProverInTheWay(InvalidInput):
    """Provers are online: a run with settings of its own would measure them too."""

    code = "prover_in_the_way"


class ProverNotStarted(CuzkError):
    """The prover that was started for this run ended, or is not online in time."""

    code = "prover_not_started"


@dataclass(frozen=True, slots=True)
class Load:
    """What is submitted: of each request so many a second, for so many seconds."""

    rates: Sequence[tuple[ProofRequest, float]]
    duration_s: float
    patience_s: float  # after that, what has not ended is not waited for
    seed: int


@dataclass(slots=True)
class Report:
    """One run. Times in seconds but where a name says milliseconds."""

    settings: dict[str, Any]
    states: dict[str, int]
    wall_s: float
    latency_s: dict[str, measures.Percentiles]
    queue_wait_s: dict[str, measures.Percentiles]
    devices: list[measures.Gaps]
    truth: measures.Truth
    events_per_s: float
    submit_ms: measures.Percentiles
    round_trip_ms: measures.Percentiles
    bars: list[tuple[str, list[measures.Span]]] = field(repr=False, default_factory=list)

    @property
    def proofs_per_minute(self) -> float:
        return 60 * self.states.get("done", 0) / self.wall_s


class Observer(threading.Thread):
    """Looks at the fleet as a page would, and at how long the database takes for nothing."""

    def __init__(self, url: str) -> None:
        super().__init__(name="observer", daemon=True)
        self._url = url
        self._stop_asked = threading.Event()
        self.looks: list[measures.Look] = []
        self.round_trips_ms: list[float] = []

    def run(self) -> None:
        client = Client(self._url)
        with connect(self._url, "cuzk bench") as connection:
            while not self._stop_asked.wait(LOOK_EVERY_S):
                began = time.perf_counter()
                connection.execute("SELECT 1")
                self.round_trips_ms.append(1e3 * (time.perf_counter() - began))
                fleet = client.fleet()
                workers = frozenset(key for s in fleet.sessions if s.state == "online" for key in _workers(fleet, s))
                shown = frozenset(key for key in workers if fleet.state.front(key) is not None)
                self.looks.append(measures.Look(fleet.now_us, shown, workers))
        client.close()

    def end(self) -> None:
        """Look no more."""
        self._stop_asked.set()
        self.join()


def _workers(fleet: Any, session: Any) -> list[str]:
    from prover.states import Entity

    return [key for key, view in fleet.state.views[Entity.WORKER].items() if view.session == session.session]


def online(url: str) -> list[str]:
    """The provers that are there, by name."""
    client = Client(url)
    try:
        fleet = client.fleet()
    finally:
        client.close()
    return [s.prover for s in fleet.sessions if s.state == "online" and not fleet.has_lost_contact(s)]


@contextlib.contextmanager
def own_prover(url: str, settings: Mapping[str, str]) -> Iterator[None]:
    """A prover with these settings for the block, and no other. Raises ProverInTheWay, ProverNotStarted."""
    if others := online(url):
        raise ProverInTheWay(f"{', '.join(others)}: stop them, or measure them without --workers and --split")
    name = f"bench-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as spool:
        own = {
            "daemon.prover": name,
            "daemon.spool": spool,
            "daemon.listen": "",
            "daemon.status_listen": "",
            **settings,
        }
        words = [word for key, value in own.items() for word in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "prover", "daemon", "--log-level", "warning", *words]
        process = subprocess.Popen(command, env={**os.environ, "DATABASE_URL": url})
        try:
            _await_online(url, name, process)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _await_online(url: str, name: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while name not in online(url):
        if process.poll() is not None or time.monotonic() > until:
            raise ProverNotStarted(f"{name}: exit status {process.returncode}")
        time.sleep(0.2)


def run(url: str, load: Load, settings: Mapping[str, Any]) -> Report:
    """Submit the load, wait for its end, and look back. Raises NoProver and the errors of a client."""
    if not online(url):
        raise NoProver()
    tag = f"{os.getpid()}-{time.time_ns() // 1_000_000}"
    pattern = f"bench-{tag}-%"
    observer = Observer(url)
    observer.start()
    with connect(url, "cuzk bench") as connection:
        began_us = _now_us(connection)
        submits_ms = list(_submit(url, load, tag))
        until = time.monotonic() + load.patience_s
        while connection.execute(_OPEN, [pattern]).fetchone() != (0,) and time.monotonic() < until:
            time.sleep(0.1)
        ended_us = _now_us(connection)
        observer.end()
        return _report(connection, pattern, (began_us, ended_us), observer, submits_ms, dict(settings))


def _submit(url: str, load: Load, tag: str) -> Iterator[float]:
    """Milliseconds that each submission took. Open loop: what is slow delays nothing that follows."""
    client, began = Client(url), time.monotonic()
    sources = [renamed(request, tag) for request, _ in load.rates]
    for at, number in arrivals([rate for _, rate in load.rates], load.duration_s, load.seed):
        time.sleep(max(0.0, began + at - time.monotonic()))
        request, started = next(sources[number]), time.perf_counter()
        client.submit(request, "bench")
        yield 1e3 * (time.perf_counter() - started)
    client.close()


def arrivals(rates: Sequence[float], duration_s: float, seed: int) -> list[tuple[float, int]]:
    """(second, which) of a Poisson process for each rate; the same seed gives the same."""
    chance, found = random.Random(seed), []
    for number, rate in enumerate(rates):
        at = chance.expovariate(rate) if rate > 0 else duration_s
        while at < duration_s:
            found.append((at, number))
            at += chance.expovariate(rate)
    return sorted(found)


def _report(
    connection: psycopg.Connection, pattern: str, window: tuple[int, int], observer: Observer,
    submits_ms: Sequence[float], settings: dict[str, Any],
) -> Report:  # fmt: skip
    jobs = [measures.JobTimes(*row) for row in connection.execute(_JOBS, [pattern])]
    attempts = measures.Attempts()
    for worker, times in connection.execute(_ATTEMPTS, [window[0]]):
        attempts.add(worker, times)
    (events,) = connection.execute(_EVENTS, list(window)).fetchone() or (0,)
    wall = (window[1] - window[0]) / 1e6
    states = [job.state if job.ended_us is not None else "open" for job in jobs]
    return Report(
        settings, {state: states.count(state) for state in sorted(set(states))}, wall, measures.latencies(jobs),
        measures.queue_waits(jobs), measures.gaps(attempts), measures.truth(observer.looks, attempts), events / wall,
        measures.Percentiles.of(submits_ms), measures.Percentiles.of(observer.round_trips_ms),
        measures.bars(attempts),
    )  # fmt: skip


def _now_us(connection: psycopg.Connection) -> int:
    (now,) = connection.execute("SELECT to_us(clock_timestamp())").fetchone() or (0,)
    return int(now)
