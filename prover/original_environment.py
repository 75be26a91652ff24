"""The environment variables of the original daemon: which settings they are here, and what has no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

#: =1: the synchronous path
DISABLE_SPLIT = "CUZK_DISABLE_SPLIT_PROVE"
GPU_THREADS = "CUZK_GPU_THREADS"
DISABLE_PCE = "CUZK_DISABLE_PCE"
VALIDATE_PARTITIONS = "CUZK_VALIDATE_PARTITIONS"
LOG = "RUST_LOG"
_LEVELS = frozenset({"trace", "debug", "info", "warn", "error"})


def settings(environment: Mapping[str, str], notes: list[str]) -> Iterator[tuple[str, str, str]]:
    """(variable, key, value) of what is honoured; what has no effect is said in `notes`. CUDA_VISIBLE_DEVICES is not
    here: CUDA itself honours it, and the ordinals of gpus.devices count what it leaves."""
    if environment.get(DISABLE_SPLIT) == "1":
        yield DISABLE_SPLIT, "pipeline.split", "false"
    elif environment.get(DISABLE_SPLIT):
        notes.append(f"{DISABLE_SPLIT}={environment[DISABLE_SPLIT]} has no effect: only 1 has, as in the original")
    if environment.get(GPU_THREADS):
        yield GPU_THREADS, "gpus.gpu_threads", environment[GPU_THREADS]
    if environment.get(DISABLE_PCE) == "1":
        notes.append(f"{DISABLE_PCE} has no effect: circuits are always evaluated by their recorded matrices")
    if environment.get(VALIDATE_PARTITIONS) == "0":
        notes.append(f"{VALIDATE_PARTITIONS}=0 has no effect: each partition is verified before it counts as done")
    yield from _level(environment.get(LOG, ""), notes)


def _level(text: str, notes: list[str]) -> Iterator[tuple[str, str, str]]:
    """The level of all modules, in RUST_LOG's directives `LEVEL` and `MODULE=LEVEL`; the last one counts."""
    directives = [word.strip().lower() for word in text.split(",") if word.strip()]
    levels = [word for word in directives if word in _LEVELS]
    if levels:
        yield LOG, "logging.level", levels[-1]
    if ignored := [word for word in directives if word not in _LEVELS]:
        notes.append(f"{LOG}: {', '.join(ignored)} has no effect: there is one level for all modules")
