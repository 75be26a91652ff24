"""What the actions of jobs take beside the job: checked at the boundary, given in the words of commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms

from cuzk_web import formats
from prover.errors import InvalidInput
from prover.states import Action


class PriorityForm(forms.Form):
    """One of the four."""

    priority = forms.TypedChoiceField(
        label="Priority", coerce=int, choices=[(value, word) for value, word in formats.PRIORITIES.items()]
    )

    def arguments(self) -> dict[str, Any]:
        """Of the command."""
        return {"priority": self.cleaned_data["priority"]}


class DeadlineForm(forms.Form):
    """A moment in UTC; none when it is empty."""

    deadline = forms.DateTimeField(
        label="Deadline",
        required=False,
        help_text="UTC; empty: none.",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S"),
    )

    def arguments(self) -> dict[str, Any]:
        """Of the command."""
        deadline = self.cleaned_data["deadline"]
        return {"deadline_us": None if deadline is None else formats.to_us(deadline)}


FORMS: Final[Mapping[str, type[PriorityForm | DeadlineForm]]] = {
    Action.PRIORITY: PriorityForm,
    Action.DEADLINE: DeadlineForm,
}


def arguments(action: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a job's action from the fields of a form. Raises InvalidInput, which names the field."""
    if action not in FORMS:
        return {}
    form = FORMS[action](fields)
    if not form.is_valid():
        name, errors = next(iter(form.errors.items()))
        raise InvalidInput(" ".join(str(error) for error in errors), field=name)
    return form.arguments()
