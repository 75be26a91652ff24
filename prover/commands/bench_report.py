"""The report of a load as a table, as JSON, and drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from .bench_load import Report
from .bench_measures import Percentiles, as_json

_WIDTH, _ROW, _LEFT = 1000, 22, 180  # of the drawing, in pixels


def to_json(report: Report) -> dict[str, Any]:
    """All of it but the drawing's bars; times in seconds but where a name says otherwise."""
    names = (
        "settings", "states", "wall_s", "latency_s", "queue_wait_s", "devices", "truth", "events_per_s", "submit_ms",
        "round_trip_ms",
    )  # fmt: skip
    found = {name: as_json(getattr(report, name)) for name in names}
    return {**found, "proofs_per_minute": report.proofs_per_minute}


def to_table(report: Report) -> Iterator[str]:
    """Lines for people."""
    settings = ", ".join(f"{key} {value}" for key, value in report.settings.items()) or "the fleet as it is"
    states = ", ".join(f"{count} {state}" for state, count in report.states.items())
    yield f"{settings}: {states} in {report.wall_s:.1f} s, {report.proofs_per_minute:.1f} jobs/min"
    yield f"  {'':<24}{'p50':>9}{'p95':>9}{'p99':>9}{'n':>7}"
    for name, found in (("latency s", report.latency_s), ("queue wait s", report.queue_wait_s)):
        for kind, values in found.items():
            yield _row(f"{name}, {kind}", values)
    yield _row("submission ms", report.submit_ms)
    yield _row("database round trip ms", report.round_trip_ms)
    for device in report.devices:
        yield f"  {device.device}: busy {device.busy:.1%}, {device.count} gaps, longest {device.longest_s:.2f} s"
    truth = report.truth
    wrong = f"{truth.false_idle} false idle, {truth.false_busy} false busy"
    yield f"  shown and recorded: {truth.looks} looks at workers, {wrong}"
    yield f"  {report.events_per_s:.1f} events/s"


def _row(name: str, values: Percentiles) -> str:
    return f"  {name:<24}{values.p50:>9.2f}{values.p95:>9.2f}{values.p99:>9.2f}{values.count:>7}"


def to_svg(reports: Sequence[Report]) -> str:
    """The device phases of all runs, a row a device, each run by its own time."""
    rows = [(f"{_name(report)} {device}", spans) for report in reports for device, spans in report.bars]
    length = max((spans[-1].end_us - spans[0].start_us for _, spans in rows), default=1) or 1
    height = _ROW * (len(rows) + 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="4" y="15">device phases, {length / 1e6:.1f} s from left to right</text>',
    ]
    scale = (_WIDTH - _LEFT - 10) / length
    for number, (name, spans) in enumerate(rows, 1):
        top = number * _ROW
        lines.append(f'<text x="4" y="{top + 15}">{escape(name)}</text>')
        for span in spans:
            left = _LEFT + (span.start_us - spans[0].start_us) * scale
            width = max(0.5, (span.end_us - span.start_us) * scale)
            lines.append(f'<rect x="{left:.1f}" y="{top + 4}" width="{width:.1f}" height="{_ROW - 8}" fill="#2a6fb0"/>')
    return "\n".join([*lines, "</svg>", ""])


def _name(report: Report) -> str:
    return " ".join(f"{key}={value}" for key, value in report.settings.items())
