"""A skipped test is a check that was not made: only the reasons listed here are accepted, any other fails the run."""

from __future__ import annotations

import pytest

#: a skip whose reason starts with one of these is accepted; the second word says what is missed without it
ACCEPTED = {
    "needs the large vectors": "../shared/vectors is not beside the project (window.params, winning.npz)",
    "needs a file system of its own": "root may not mount here: a disk that is full or read-only is not tried",
    "peer not installed": "Rust, Go or Node is absent: interoperability with that peer is not checked",
}


class SkipPolicy:
    """Collects the reasons of all skips, and fails a run that has one that is not accepted."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            if not reason.startswith(tuple(ACCEPTED)):
                self.refused.append(f"{report.nodeid}: {reason}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.refused:
            terminalreporter.write_line(f"SKIP NOT ACCEPTED (see tests/skips.py): {line}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest for this plugin (named in pyproject's addopts)."""
    config.pluginmanager.register(SkipPolicy(), "skip-policy")
