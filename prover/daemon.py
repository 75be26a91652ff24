"""The prover's process: devices, kinds, and one session after another of journal, tracker and engine."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import psutil
import structlog

from . import __version__, jaxconf
from .commands.exits import Exit
from .config import Config
from .errors import CuzkError
from .filecoin.shapes import ProofKind
from .groth16.store import LOCAL_WARNING, KeyStore
from .groth16.tables import TableStore
from .journal.errors import DatabaseAway
from .journal.journal import Journal
from .memory import memory
from .notify import Notifier
from .pipeline.budget import MemoryBudget
from .pipeline.clock import Clock
from .pipeline.device_memory import bound_chunks, device_use
from .pipeline.devices import Device, discover
from .pipeline.engine import Engine, EngineOptions, Wish
from .pipeline.filecoin import FilecoinKind, KindSettings
from .pipeline.holdings import Holdings
from .pipeline.keys import KeyManager
from .pipeline.kinds import AnyKind
from .pipeline.progress import Progress
from .pipeline.tables import THREAD_NAME
from .pipeline.tracker import StatusTracker
from .service.desk import Desk
from .service.key_control import KeyControl
from .service.live import Live
from .service.meters import Meters
from .service.options import options
from .service.service import Service
from .states import Admin, JsonObject

log = structlog.get_logger(__name__)

SAMPLE_EVERY_S = 1.0
NO_PROGRESS = "no_progress"  # the anomaly of a phase that takes many times its own median
RETRY_EVERY_S = 2.0  # to reach a database that is away at the start
LOOK_EVERY_S = 0.2  # for signals and a lost session
START_S = 60.0  # an attempt to begin a session ends sooner: a predecessor's lease may have to run out
CLOSE_S = 60.0  # what comes after the drain ends sooner


def main(config: Config) -> int:
    """Run until SIGTERM or SIGINT; the exit code. A first signal drains, a second one aborts.

    Raises CuzkError when it cannot start: a device or the platform is missing, another process has the prover's name.
    """
    configure_logging(config.logging.level, config.logging.format)
    with signals() as stop:
        code = Prover(config, stop, Notifier()).run()
    if code is Exit.INTERRUPTED or any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(code)  # device phases that were left behind, and tables, may take minutes; nothing waits for them
    return code


class Signals:
    """Counts SIGTERM and SIGINT."""

    def __init__(self) -> None:
        self.count = 0
        self._came = threading.Event()

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """The handler: it only counts."""
        self.count += 1
        self._came.set()

    def wait(self, seconds: float) -> bool:
        """Whether one came, at the latest after `seconds`."""
        return self._came.wait(seconds)


@contextlib.contextmanager
def signals() -> Iterator[Signals]:
    """Take the two signals for the block. Only in the main thread, as Python wants it."""
    taken = Signals()
    before = {number: signal.signal(number, taken.handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield taken
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class LateResults:
    """The results' way to the journal of the session that is current when they come.

    A proof that a lost session finishes late is a fact still, and goes to its successor; between two sessions it waits.
    """

    def __init__(self) -> None:
        self._journal: Journal | None = None
        self._waiting: list[tuple[str, int, int, bytes]] = []
        self._lock = threading.Lock()

    def use(self, journal: Journal | None) -> None:
        """From now on results go there; None: they wait."""
        with self._lock:
            self._journal = journal
            if journal is not None:
                for proof in self._waiting:
                    journal.put_proof(*proof)
                self._waiting.clear()

    def put_proof(self, job: str, partition: int, attempt_no: int, proof: bytes) -> None:
        """Keep a verified proof of one partition."""
        with self._lock:
            if self._journal is None:
                self._waiting.append((job, partition, attempt_no, proof))
            else:
                self._journal.put_proof(job, partition, attempt_no, proof)

    def put_delivery(self, job: str, proof: bytes) -> None:
        """Keep a job's assembled proof; only the session that is current delivers."""
        with self._lock:
            if self._journal is not None:
                self._journal.put_delivery(job, proof)


class Prover:
    """What outlives a session: devices, and kinds with the keys they have loaded."""

    def __init__(self, config: Config, stop: Signals, notifier: Notifier) -> None:
        self._config = config
        self._stop = stop
        self._notifier = notifier
        cache = config.cache.directory
        jax_devices = jaxconf.configure(config.gpus.platform, config.gpus.cpu_devices, cache / "jax")
        per_proof = config.gpus.devices_per_proof
        self._devices = discover(config.daemon.prover, jax_devices, config.gpus.devices, per_proof=per_proof)
        bound_chunks(self._devices, config.memory.device_chunk, config.memory.device_memory)
        self._keys = KeyStore(config.srs.param_cache)
        self._results = LateResults()
        self._holdings = Holdings()
        self._manager = make_manager(config, self._keys, self._devices, self._holdings)
        self._kinds = make_kinds(self._manager)
        self._live = Live(config.daemon.prover, __version__, self._devices, Meters(), self._manager)
        self._service = self._make_service()

    def _make_service(self) -> Service:
        daemon = self._config.daemon
        desk = Desk(
            daemon.database_url, self._keys, makes_keys=self._config.srs.make_missing,
            allow_local_keys=daemon.allow_local_keys,
        )  # fmt: skip
        return Service(options(daemon), self._live, daemon.database_url, KeyControl(self._manager), desk)

    def run(self) -> Exit:
        """The service, and sessions, one after another: a new one when the lease of the last was lost."""
        self._say_what_is_here()
        threading.Thread(target=self._preload, name="preload", daemon=True).start()
        self._service.start()
        try:
            return self._run_sessions()
        finally:
            self._service.stop()

    def _run_sessions(self) -> Exit:
        while True:
            journal = self._open_journal()
            if journal is None:
                return Exit.OK
            code = self._session(journal).run(self._stop)
            if code is not None:
                return code

    def _session(self, journal: Journal) -> Session:
        self._results.use(journal)
        return Session(
            self._config, journal, self._devices, self._kinds, self._results, self._holdings, self._manager,
            self._detail(), self._notifier, self._live,
        )  # fmt: skip

    def _preload(self) -> None:
        """The keys that the configuration names, one after the other; what fails is tried when a job needs it."""
        for name in self._config.srs.preload:
            try:
                already, milliseconds = self._manager.preload(name)
                log.info("key preloaded", name=name, already=already, ms=milliseconds)
            except CuzkError as error:
                log.warning("key not preloaded", name=name, code=error.code, error=str(error))

    def _open_journal(self) -> Journal | None:
        """A new session, once the database is there; None when a signal came first."""
        daemon = self._config.daemon
        while not self._stop.count:
            self._notifier.waiting("waiting for the database", START_S)
            try:
                clock = Clock()
                return Journal.open(daemon.database_url, daemon.prover, daemon.spool, version=__version__, clock=clock)
            except DatabaseAway as error:
                log.warning("waiting for the database", error=str(error))
                self._stop.wait(RETRY_EVERY_S)
        return None

    def _detail(self) -> JsonObject:
        return {
            "prover": self._config.daemon.prover, "host": os.uname().nodename, "pid": os.getpid(),
            "version": __version__, "platform": self._config.gpus.platform,
            "local_keys": any(entry.local for entry in self._keys.entries()),
            "max_parallel_synthesis": self._config.synthesis_workers,
        }  # fmt: skip

    def _say_what_is_here(self) -> None:
        for entry in self._keys.entries():
            log.info("key", name=entry.name, bytes=entry.size, warning=entry.warning)
        for device in self._devices:
            log.info("device", ordinal=device.ordinal, name=device.info.name, platform=device.info.platform)
        if any(entry.local for entry in self._keys.entries()):
            log.warning(LOCAL_WARNING)


class Session:
    """One session: it ends by a signal, or when its lease is lost."""

    def __init__(
        self, config: Config, journal: Journal, devices: Sequence[Device], kinds: Mapping[str, AnyKind],
        results: LateResults, holdings: Holdings, manager: KeyManager, detail: JsonObject, notifier: Notifier,
        live: Live,
    ) -> None:  # fmt: skip
        self._config = config
        self._notifier = notifier
        self._results = results
        self._journal = journal
        self._detail = detail
        self._sampled = 0.0
        self._status = ""
        self._devices, self._manager = devices, manager
        self._process = psutil.Process()
        self._progress = Progress(factor=config.failures.stuck_after)
        self._live = live
        sinks = [journal.sink, self._progress.sink, live.meters.sink]
        self._tracker = StatusTracker(journal.session, journal.prover, journal.clock, sinks)
        live.use(self._tracker, journal)
        self._engine = Engine(
            self._tracker, devices, kinds, journal, results, engine_options(config), on_tick=self._tick,
            holdings=holdings, keys=manager,
        )  # fmt: skip

    def run(self, stop: Signals) -> Exit | None:
        """Prove until a signal comes, then drain; None when the lease was lost."""
        wishes = {wish.worker: Wish(Admin(wish.admin), wish.at_us) for wish in self._journal.wishes}
        self._engine.start(self._detail, wishes)
        self._journal.start(self._engine)
        self._notifier.ready()
        log.info("session started", session=self._journal.session)
        while not stop.wait(LOOK_EVERY_S):
            if self._engine.lost.is_set():
                self._results.use(None)
                self._engine.leave()
                self._journal.close()
                return None
            self._look_at_progress()
        return self._end(stop)

    def _look_at_progress(self) -> None:
        """Apart from the engine's own loop, which may be what hangs."""
        for stalled in self._progress.look(self._journal.clock.read_us()):
            detail = stalled.detail()
            log.error("no progress", entity=stalled.entity.value, id=stalled.entity_id, **detail)
            self._journal.alarm(NO_PROGRESS, stalled.entity.value, stalled.entity_id, stalled.phase, detail)

    def _end(self, stop: Signals) -> Exit:
        """Finish what runs; give up at a second signal, or when the time for it is over."""
        self._live.draining = True
        log.info("draining: a second signal aborts", timeout_s=self._config.daemon.drain_timeout)
        self._notifier.stopping(self._config.daemon.drain_timeout + CLOSE_S)
        until = time.monotonic() + self._config.daemon.drain_timeout
        drained = self._engine.drain(0)
        while not drained and stop.count < 2 and time.monotonic() < until and not self._engine.lost.is_set():
            drained = self._engine.drain(LOOK_EVERY_S)
        if drained:
            self._engine.stop()
        else:
            self._engine.abort()
        kept = self._journal.close()
        log.info("stopped", drained=drained, journal_kept=kept)
        return Exit.OK if drained else Exit.INTERRUPTED

    def _tick(self) -> None:
        """A turn of the engine's own loop: nothing else tells the database and systemd that it responds."""
        self._journal.tick()
        self._notifier.alive(self._status)
        self._live.tick()
        if time.monotonic() - self._sampled >= SAMPLE_EVERY_S:
            self._sampled = time.monotonic()
            gauges = self._gauges()
            self._journal.sample(gauges)
            self._status = f"{gauges['gpu_active']} workers prove, {gauges['open_jobs']} jobs"

    def _memory_gauges(self) -> dict[str, Any]:
        """What is reserved, and beside it what the process, the machine (or container) and the devices say."""
        machine = memory()
        return {
            "memory_total_bytes": machine.total, "memory_available_bytes": machine.available,
            **self._manager.budget.figures().gauges(),
            "keys": [row.to_json() for row in self._manager.loaded()],
            "device_memory": [use.to_json() for use in map(device_use, self._devices) if use is not None],
        }  # fmt: skip

    def _gauges(self) -> dict[str, Any]:
        calls, spent_ns = self._tracker.calls, self._tracker.spent_ns
        return {
            **self._tracker.gauges(), "rss_bytes": self._process.memory_info().rss,
            **self._memory_gauges(),
            "tracker_calls": calls, "tracker_ms": spent_ns // 1_000_000, "journal_waiting": self._journal.waiting,
            "trouble": self._journal.trouble, "stalled": self._progress.stalled(),
            **self._engine.book.quarantine.counts(),
        }  # fmt: skip


def make_manager(config: Config, keys: KeyStore, devices: Sequence[Device], holdings: Holdings) -> KeyManager:
    """All keys of the process, within its memory budget."""
    own_memory = [found for device in devices if (found := device.own_memory) is not None]
    settings = KindSettings(
        keys,
        circuit_cache=config.cache.directory / "circuits",
        make_missing=config.srs.make_missing,
        tables=TableStore(config.cache.directory / "tables", config.device_threads),
        table_bytes=config.table_bytes(min(own_memory, default=None)),
        device_threads=config.device_threads,
        synthesis_threads=config.synthesis_threads,
        on_host=not own_memory,
    )
    return KeyManager(
        settings, MemoryBudget(config.budget_bytes()), devices, holdings, min_idle_s=config.memory.eviction_min_idle,
        changed=holdings.ended,
    )  # fmt: skip


def make_kinds(keys: KeyManager) -> dict[str, AnyKind]:
    """The kinds that this prover proves, by name."""
    return {str(kind): FilecoinKind(kind, keys.settings, keys) for kind in ProofKind}


def engine_options(config: Config) -> EngineOptions:
    """The engine's part of the configuration."""
    return EngineOptions(
        pipeline=config.pipeline.enabled,
        split=config.pipeline.split,
        workers_per_device=config.gpus.gpu_workers_per_device,
        synthesis_threads=config.synthesis_workers,
        max_retries=config.failures.max_retries,
        backoff_s=config.failures.retry_backoff,
        quarantine_after=config.failures.quarantine_after,
        probe_every_s=config.failures.probe_every,
        max_ready=config.pipeline.max_gpu_queue_depth,
        ageing_s=config.scheduler.ageing,
        cancel_missed=config.scheduler.cancel_missed,
    )


def configure_logging(level: str, form: str) -> None:
    """Log lines on stderr: `text`, in words that stay greppable, or `json`, an object a line."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_JSON if form == "json" else [_text_renderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


_JSON = (structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=True))


def _text_renderer() -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )  # fmt: skip
