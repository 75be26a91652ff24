"""What people ask of the engine: each command is executed once and answered by a transition of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping

from ..errors import CommandRefused, CuzkError
from ..states import ACTIONS, Command, Target
from .sources import EngineCommand
from .tracker import StatusTracker

_REMEMBERED = 10_000  # executed ids: a command that is handed over again is not executed again

#: executes a command of one kind of target and gives the outcome; None: it is not this session's to execute any more.
#: Raises CommandRefused, or what else prevents it.
Executor = Callable[[EngineCommand], str | None]


class Commands:
    """Executes commands, by an executor for each kind of target. `knows` says whether a job is, or was, here."""

    def __init__(
        self, tracker: StatusTracker, executors: Mapping[Target, Executor], knows: Callable[[str], bool]
    ) -> None:  # fmt: skip
        self._tracker = tracker
        self._executors = executors
        self._knows = knows
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._early: defaultdict[str, list[EngineCommand]] = defaultdict(list)  # by job: claimed, but not here yet

    def execute(self, command: EngineCommand) -> None:
        """Do it and answer; what was executed already is left alone.

        What is wished of a job that is not here, and has not ended here, waits until the job is: it was claimed a
        moment ago. When it was given back instead, the database executes the wish, so it gets no answer here.
        """
        with self._lock:
            if command.id in self._seen:
                return
            if command.kind == Target.JOB and not self._knows(command.target):
                self._early[command.target].append(command)
                return
            self._seen[command.id] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        self._answer(command)

    def admitted(self, job: str) -> None:
        """The job is in the book now, or has failed at once: execute what was wished of it before."""
        with self._lock:
            early = self._early.pop(job, [])
        for command in early:
            self.execute(command)

    def _answer(self, command: EngineCommand) -> None:
        if not self._tracker.command(command, Command.TAKEN):
            return
        try:
            outcome = self._outcome(command)
        except CuzkError as error:
            self._tracker.command(command, Command.REFUSED, str(error))
        else:
            if outcome is not None:
                self._tracker.command(command, Command.DONE, outcome)

    def _outcome(self, command: EngineCommand) -> str | None:
        executors = {kind.value: executor for kind, executor in self._executors.items()}
        if command.kind not in executors or command.action not in ACTIONS[Target(command.kind)]:
            raise CommandRefused(f"no such action: {command.action!r} of a {command.kind}", field="action")
        return executors[command.kind](command)
