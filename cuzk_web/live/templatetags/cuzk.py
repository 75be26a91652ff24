"""Template tags for every page: labels that are never cut, durations, times in the viewer's zone, badges, kinds."""

from __future__ import annotations

from datetime import UTC, datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from cuzk_web.live import labels

register = template.Library()


@register.simple_tag
def label(text: object, copy: bool = False) -> SafeString:
    """An id or name: whole if it is short, else with its middle marked; the whole in title, aria-label, clipboard."""
    whole = str(text)
    node = format_html('<span class="label" title="{0}" aria-label="{0}">{1}</span>', whole, labels.shown(whole))
    return format_html("{} {}", node, copy_button(whole)) if copy else node


@register.simple_tag
def copy_button(text: object) -> SafeString:
    """A button that copies `text` (static/js/shell.js)."""
    return format_html('<button class="copy" type="button" data-copy="{}">copy</button>', str(text))


@register.simple_tag
def badge(state: str, word: str = "") -> SafeString:
    """A state as a badge; `word` is shown instead of the state's own name."""
    return format_html('<span class="badge" data-state="{}">{}</span>', state, word or state.replace("_", " "))


@register.simple_tag
def when(at: datetime | None, parts: str = "both") -> SafeString | str:
    """A moment; the browser rewrites it in the chosen zone. `parts` is "time", "date" or "both"."""
    if at is None:
        return labels.NONE
    utc = at.astimezone(UTC)
    text = {"time": f"{utc:%H:%M:%S}", "date": f"{utc:%Y-%m-%d}", "both": f"{utc:%Y-%m-%d %H:%M:%S}"}[parts]
    stamp = f"{utc:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    return format_html('<time datetime="{}" data-parts="{}" title="{} UTC">{}</time>', stamp, parts, text, text)


@register.filter
def duration(ms: float | None) -> str:
    """Milliseconds as "587ms", "5.2s", "3m 07s", "2h 05m", "3d 4h"; None as an en dash."""
    return labels.duration(ms)


@register.filter
def kind(value: str) -> str:
    """The human name of a kind of proof."""
    return labels.kind_name(value)


@register.filter
def sector_size(value: int) -> str:
    """A sector size as it is named."""
    return labels.sector_size(value)
