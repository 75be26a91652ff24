"""`manage.py watch_alerts`: rules and messages without a web process, or beside one."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from cuzk_web.alerts.watch import watching
from cuzk_web.patience import serve_patiently


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT. `serve` does the same by itself; any number of both may run."""

    help = "Look at the alert rules and send messages until SIGTERM or SIGINT, as `serve` does beside its pages."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Wait for the signal."""
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        serve_patiently()
        with watching():
            self.stdout.write("watching")
            self.stdout.flush()
            ended.wait()
