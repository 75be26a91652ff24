"""The one place that configures JAX. Importing any module of the project leaves JAX alone; the daemon, the command
line and the tests call `configure` once, before the first array is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax

from prover.errors import CuzkError


class PlatformUnavailable(CuzkError):
    """The configured platform is not available to JAX on this machine."""

    code = "platform_unavailable"


class JaxAlreadyConfigured(CuzkError):
    """JAX was configured in another way before, and cannot change in a running process."""

    code = "jax_already_configured"


@dataclass(frozen=True)
class JaxSettings:
    """What `configure` was asked for; equal settings may be asked for again."""

    platform: str
    cpu_devices: int
    cache_dir: Path | None


_JAX_NAMES = {"cpu": "cpu", "gpu": "cuda"}
_current: JaxSettings | None = None


def configure(platform: str = "cpu", cpu_devices: int = 1, cache_dir: Path | str | None = None) -> list[jax.Device]:
    """Set JAX up and return the devices to prove on, of `platform` ('cpu' or 'gpu').

    64-bit types on, `cpu_devices` CPU devices and one more for the host's own work (`kernels.host`), and every
    compiled program kept in `cache_dir` (None: no disk cache).
    Raises PlatformUnavailable where JAX lacks the platform (there is no fall-back), JaxAlreadyConfigured where an
    earlier call asked for something else.
    """
    global _current
    wanted = JaxSettings(platform, cpu_devices, Path(cache_dir).absolute() if cache_dir else None)
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
