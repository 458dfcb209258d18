"""People's passwords: the one that the first start made must be replaced by its owner."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from relay.http import Problem
from relay.tenants import changes
from relay.tenants.changes import Actor
from relay.tenants.models import Change

GENERATED = {"password": "generated"}  # in the Change row of a person whom the first start made


def must_choose_password(user: User) -> bool:
    """Whether this person still has the password that the first start made up and printed."""
    newest = Change.objects.filter(kind="person", name=user.get_username(), action__in=("create", "password")).first()
    return newest is not None and newest.action == "create" and (newest.after or {}).get("password") == "generated"


def choose_password(user: User, password: str, actor: Actor) -> None:
    """Sets a password that its owner chose; all other sessions end. Raises 400 `invalid` with what is wrong with it."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        messages = [str(message) for message in error.messages]
        raise Problem(400, "invalid", " ".join(messages), errors={"password": messages}) from None
    with changes.writing():
        user.set_password(password)
        user.save(update_fields=["password"])
        changes.record(actor, "person", user.get_username(), "password", None, None)
