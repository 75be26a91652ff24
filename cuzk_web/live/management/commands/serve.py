"""`manage.py serve`: pages and sockets on one port, by Daphne, with the hub at work from the start."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    """Runs until SIGTERM or SIGINT; ends with an error when the live page cannot go on, to be started again."""

    help = "Serve the site: HTTP and WebSocket on one port. Ends on SIGTERM or SIGINT. There is no access log."

    def add_arguments(self, parser: CommandParser) -> None:
        """Where to listen."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
        parser.add_argument(
            "--port", type=int, default=8000, help="port to listen on, 0 for a free one (default: 8000)"
        )

    def handle(self, *_args: Any, host: str, port: int, **_options: Any) -> None:
        """Serve; CommandError when the address cannot be had, or the live page has failed."""
        from cuzk_web.alerts.watch import watching
        from cuzk_web.asgi import application
        from cuzk_web.history.keeper import keeping
        from cuzk_web.live.server import SiteServer  # installs the reactor: not before it is needed

        server = SiteServer(application, host, port, self._say)
        with watching(), keeping():
            server.run()
        if server.failure is not None:
            raise CommandError(server.failure)

    def _say(self, url: str) -> None:
        self.stdout.write(f"serving {url}")
        self.stdout.flush()
