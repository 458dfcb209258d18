"""Headers that every answer of Django's carries. The data plane answers JSON only and needs none of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


def content_security_policy(**changes: str) -> str:
    """The policy's header value. A view that needs more sets the header itself: `style_src="'self' 'unsafe-inline'"`."""
    policy = POLICY | {name.replace("_", "-"): value for name, value in changes.items()}
    return "; ".join(f"{name} {value}" for name, value in policy.items())


STRICT = content_security_policy()


@sync_and_async_middleware
def security_headers(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Adds the Content-Security-Policy, unless the view has set one."""
    if iscoroutinefunction(get_response):
        answer: Callable[[HttpRequest], Awaitable[HttpResponseBase]] = get_response

        async def run_async(request: HttpRequest) -> HttpResponseBase:
            return _with_policy(await answer(request))

        return run_async

    def run(request: HttpRequest) -> HttpResponseBase:
        return _with_policy(get_response(request))

    return run


def _with_policy(response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", STRICT)
    return response
