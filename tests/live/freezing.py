"""A database server that stands still."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from prover.stack.postgres import EmbeddedPostgres


@contextmanager
def frozen(server: EmbeddedPostgres) -> Iterator[None]:
    """All processes of the server stand still; its kernel goes on accepting what is sent to it."""
    assert server.process is not None
    postmaster = psutil.Process(server.process.pid)
    processes = [postmaster, *postmaster.children(recursive=True)]
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
