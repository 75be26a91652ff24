"""Template filters: `cuzk_web.formats`."""

from __future__ import annotations

from django import template

from cuzk_web import formats

register = template.Library()
register.filter("priority", formats.priority)
register.filter("size", formats.size)
register.filter("span", formats.span)
register.filter("share", formats.share)
register.filter("moment", formats.from_us)
