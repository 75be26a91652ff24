"""`manage.py watch_cuzk URL`: an original cuzk daemon on our page, in our history, under our alerts."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from prover.errors import CuzkError


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT."""

    help = "Watch an original cuzk daemon by its GET /status, until SIGTERM or SIGINT. It is never told to do anything."

    def add_arguments(self, parser: CommandParser) -> None:
        """What to watch, and under which name."""
        parser.add_argument("url", help="such as http://127.0.0.1:9821")
        parser.add_argument("--name", help="name on the pages (default: HOST-PORT)")
        parser.add_argument("--every", type=float, default=1.0, help="seconds between looks, 0.1 to 10 (default: 1)")

    def handle(self, *_args: Any, url: str, name: str | None, every: float, **_options: Any) -> None:
        """CommandError when the address or the name cannot be used."""
        from cuzk_web.bridge.fetch import Daemon
        from cuzk_web.bridge.watch import Bridge

        if not 0.1 <= every <= 10:
            raise CommandError("--every must be from 0.1 to 10 seconds")
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        try:
            daemon = Daemon(url)
            source = name or f"{daemon.host.replace(':', '.')}-{daemon.port}"
            self.stdout.write(f"watching {daemon.host}:{daemon.port} as {source}")
            self.stdout.flush()
            Bridge(daemon, source).run(ended, every)
        except CuzkError as error:
            raise CommandError(f"{error} [{error.code}]") from None
