"""The one place that configures JAX. Importing any module of the project leaves JAX alone; the daemon, the command
line and the tests call `configure` once, before the first array is made."""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import jax

from prover.errors import CuzkError


class PlatformUnavailable(CuzkError):
    """The configured platform is not available to JAX on this machine."""

    code = "platform_unavailable"


class JaxAlreadyConfigured(CuzkError):
    """JAX was configured in another way before, and cannot change in a running process."""

    code = "jax_already_configured"


class CoordinatorUnreachable(CuzkError):
    """The first of the processes that are to compute together does not answer."""

    code = "coordinator_unreachable"
    retryable = True


@dataclass(frozen=True)
class Hosts:
    """Processes that compute together, by `jax.distributed`: the first (process 0) listens at `coordinator`
    (NAME:PORT, a network that is trusted) and all wait for each other, to begin and to end, up to `patience_s`."""

    coordinator: str
    count: int
    process: int
    patience_s: int = 120

    def meet(self, platform: str) -> None:
        """Wait for all of them. Raises CoordinatorUnreachable; JAX ends process 0, with its message, where others do
        not come, and later on a process that has heard nothing of another for twice as long."""
        if self.process:
            self._find()
        if platform == "cpu":
            _set("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            self.coordinator,
            self.count,
            self.process,
            initialization_timeout=self.patience_s,
            heartbeat_timeout_seconds=2 * self.patience_s,
            shutdown_timeout_seconds=self.patience_s,
            coordinator_bind_address=self.coordinator,
        )

    @staticmethod
    def end_without_the_others(code: int) -> NoReturn:
        """End this process at once, as one must that has lost another (`algebra.hosts.HostLost`): at a regular end JAX
        waits for all, and aborts when one does not come."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _find(self) -> None:
        """Wait until the coordinator listens: JAX would abort where it does not."""
        name, _, port = self.coordinator.rpartition(":")
        until = time.monotonic() + self.patience_s
        while True:
            try:
                socket.create_connection((name, int(port)), timeout=1).close()
                return
            except (OSError, ValueError) as error:
                if isinstance(error, ValueError) or time.monotonic() > until:
                    raise CoordinatorUnreachable(f"{self.coordinator}: {error}", field="hosts.coordinator") from error
            time.sleep(_LOOK_EVERY_S)


@dataclass(frozen=True)
class JaxSettings:
    """What `configure` was asked for; equal settings may be asked for again."""

    platform: str
    cpu_devices: int
    cache_dir: Path | None
    hosts: Hosts | None = None


_LOOK_EVERY_S = 0.1
_JAX_NAMES = {"cpu": "cpu", "gpu": "cuda"}
_current: JaxSettings | None = None


def configure(
    platform: str = "cpu", cpu_devices: int = 1, cache_dir: Path | str | None = None, hosts: Hosts | None = None
) -> list[jax.Device]:
    """Set JAX up and return the devices of this process to prove on, of `platform` ('cpu' or 'gpu').

    64-bit types on, `cpu_devices` CPU devices and one more for the host's own work (`kernels.host`), and every
    compiled program kept in `cache_dir` (None: no disk cache).
    `hosts`: this is one of several processes that compute together (docs/devices.md).
    Raises PlatformUnavailable where JAX lacks the platform (there is no fall-back), JaxAlreadyConfigured where an
    earlier call asked for something else, CoordinatorUnreachable.
    """
    global _current
    wanted = JaxSettings(platform, cpu_devices, Path(cache_dir).absolute() if cache_dir else None, hosts)
    if _current is None:
        _update(wanted)
        _current = wanted
    elif _current != wanted:
        raise JaxAlreadyConfigured(f"JAX is set up as {_current}, {wanted} was asked for")
    return devices(platform)


def devices(platform: str) -> list[jax.Device]:
    """The devices of `platform` to prove on; raises PlatformUnavailable where there is none."""
    if platform not in _JAX_NAMES:
        raise PlatformUnavailable(f"unknown platform {platform!r}: use 'cpu' or 'gpu'", field="platform")
    try:
        found = list(jax.local_devices(backend=_JAX_NAMES[platform]))
    except RuntimeError as error:
        raise PlatformUnavailable(f"JAX has no {platform!r} here: {error}", field="platform") from error
    return found if platform != "cpu" else found[:-1] or found


def mesh_devices(platform: str) -> list[jax.Device]:
    """The devices of all processes to prove on: `devices` of each."""
    own = devices(platform)
    of_process: dict[int, list[jax.Device]] = {}
    for device in jax.devices(_JAX_NAMES[platform]):
        of_process.setdefault(device.process_index, []).append(device)
    return [device for each in of_process.values() for device in each[: len(own)]]


def _set(name: str, value: object) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]


def _update(settings: JaxSettings) -> None:
    if settings.platform not in _JAX_NAMES:
        raise PlatformUnavailable(f"unknown platform {settings.platform!r}: use 'cpu' or 'gpu'", field="platform")
    _set("jax_enable_x64", True)
    _set("jax_platforms", "cpu" if settings.platform == "cpu" else "cuda,cpu")
    # a program runs on the thread that calls it: on a CPU a hand-over to JAX's threads gains nothing, as ours overlap
    _set("jax_cpu_enable_async_dispatch", False)
    _set("jax_num_cpu_devices", settings.cpu_devices + 1 if settings.platform == "cpu" else 1)
    if settings.cache_dir is not None:
        settings.cache_dir.mkdir(parents=True, exist_ok=True)
        _set("jax_compilation_cache_dir", str(settings.cache_dir))
        # our programs compile in fractions of a second and there are many: keep them all
        _set("jax_persistent_cache_min_compile_time_secs", 0.0)
        _set("jax_persistent_cache_min_entry_size_bytes", -1)
    if settings.hosts is not None:
        settings.hosts.meet(settings.platform)
