"""Looks again and again whether the sessions of open live streams still stand: signed out, expired, or the person gone.

All streams of this process are checked together: one look at the database every few seconds, whatever their number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from asgiref.sync import sync_to_async
from django.contrib.auth import HASH_SESSION_KEY as PROOF
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.db import close_old_connections
from django.utils import timezone
from django.utils.crypto import constant_time_compare

log = logging.getLogger("dashboard.sessions")

CHECK_S = 5.0

Ended = Callable[[], Awaitable[None]]


class SessionWatch:
    """Calls `ended` of every stream whose session no longer stands. Lives on the event loop; rests without streams."""

    def __init__(self, interval_s: float = CHECK_S) -> None:
        self._interval_s = interval_s
        self._streams: dict[Ended, str] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, session_key: str, ended: Ended) -> None:
        """Watches over one stream from now on."""
        self._streams[ended] = session_key
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    def remove(self, ended: Ended) -> None:
        """The stream is gone."""
        self._streams.pop(ended, None)

    async def _run(self) -> None:
        while self._streams:
            await asyncio.sleep(self._interval_s)
            try:
                standing = await _standing(set(self._streams.values()))
            except Exception:
                log.exception("The sessions of open pages could not be checked; they are tried again.")
                continue
            for ended in [ended for ended, key in self._streams.items() if key not in standing]:
                self.remove(ended)
                await ended()


@sync_to_async(thread_sensitive=False)
def _standing(keys: Iterable[str]) -> set[str]:
    """Those of the session keys that still let their person in."""
    close_old_connections()
    try:
        rows = Session.objects.filter(session_key__in=list(keys), expire_date__gt=timezone.now())
        data = {row.session_key: row.get_decoded() for row in rows}
        ids = {content[SESSION_KEY] for content in data.values() if SESSION_KEY in content}
        people = get_user_model().objects.filter(pk__in=ids, is_active=True)
        proofs = {str(person.pk): person.get_session_auth_hash() for person in people}
        return {
            key
            for key, content in data.items()
            if constant_time_compare(content.get(PROOF, ""), proofs.get(content.get(SESSION_KEY, ""), "-"))
        }
    finally:
        close_old_connections()
