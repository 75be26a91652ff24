"""Saved views: filters of the list of jobs that an account keeps under a name. Saving again under a name replaces."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from .filters import EDGES, InvalidFilter, JobFilter, word
from .models import MAX_NAME, SavedView

MOST: Final = 50  # of one account


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """POST /jobs/views/: keep the filter `query` as `name`. 400 when either makes no sense, or there are too many."""
    user = request.user
    assert isinstance(user, User)
    try:
        name, wanted = _name(request.POST), JobFilter.from_query(_without_edges(request.POST.get("query", "")))
    except InvalidFilter as error:
        raise BadRequest(str(error)) from error
    if not wanted.active:
        raise BadRequest("query: there is no filter to save")
    if SavedView.objects.filter(user=user).exclude(name=name).count() >= MOST:
        raise BadRequest(f"name: an account keeps at most {MOST} views; delete one first")
    SavedView.objects.update_or_create(user=user, name=name, defaults={"query": wanted.query})
    messages.success(request, f"Saved as “{name}”.")
    return redirect(reverse("history") + wanted.url())


@require_POST
def delete(request: HttpRequest, view_id: int) -> HttpResponse:
    """POST /jobs/views/<id>/delete: forget one of one's own."""
    assert isinstance(request.user, User)
    gone, _ = SavedView.objects.filter(pk=view_id, user=request.user).delete()
    if not gone:
        raise Http404("There is no such saved view of yours.")
    return redirect("history")


def of(user: object) -> list[SavedView]:
    """The views of an account, by name."""
    assert isinstance(user, User)
    return list(SavedView.objects.filter(user=user)[:MOST])


def _name(form: QueryDict) -> str:
    name = " ".join(word(form, "name").split())
    if not name:
        raise InvalidFilter("is empty: a saved view has a name", field="name")
    if len(name) > MAX_NAME:
        raise InvalidFilter(f"is longer than {MAX_NAME} characters", field="name")
    return name


def _without_edges(query: str) -> QueryDict:
    kept = QueryDict(query[:10_000].encode(), mutable=True)
    for edge in EDGES:
        kept.pop(edge, None)
    return kept
