"""What the control plane's views share: keys, bodies, pages, and every error as problem+json.

The views are DRF's; an answer is JSON whatever the caller accepts, and cookies never count.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast

import msgspec
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from relay import http
from relay.http import Problem, invalid
from relay.tenants import running
from relay.tenants.changes import Actor, checked_reason
from relay.tenants.keyring import KeyRing, Principal
from relay.tenants.keys import live_keys

log = logging.getLogger("relay.api")

PAGE_DEFAULT = 100
PAGE_LIMIT = 500
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
RANGE_LIMIT_S = 366 * 86_400

M = TypeVar("M", bound=Model)
C = TypeVar("C", int, str)

_object = msgspec.json.Decoder(dict[str, Any])
_request_id = re.compile(r"[A-Za-z0-9._-]{1,64}")


class KeyAuthentication(BaseAuthentication):
    """The API key of the Authorization header, by the server's key ring; where none runs, by the database."""

    def authenticate(self, request: Request) -> tuple[Any, Principal]:
        """Raises 401 `unauthenticated`."""
        header = request.META.get("HTTP_AUTHORIZATION")
        principal = keyring().authenticate(None if header is None else header.encode("latin-1", "replace"))
        return principal, principal


class JsonRenderer(BaseRenderer):
    """The encoder of the data plane, so that both planes write numbers alike."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """JSON in UTF-8; nothing for None."""
        return b"" if data is None else http.encode_json(data)


class JsonOnly(BaseContentNegotiation):
    """Answers JSON whatever is accepted, as the data plane does."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """The only one."""
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """The only one."""
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """A view of the control plane: checks the key and its scope, and turns what is raised into a problem document."""

    authentication_classes = [KeyAuthentication]
    permission_classes = []
    renderer_classes = [JsonRenderer]
    parser_classes = [JSONParser]
    content_negotiation_class = JsonOnly
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]
    read_scope: ClassVar[str] = "read"
    read_scope_too: ClassVar[str] = ""  # another one that is enough for reading
    write_scope: ClassVar[str] = "operate"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """401, then 405, then 403."""
        super().initial(request, *args, **kwargs)
        method = (request.method or "").lower()
        if method not in self.http_method_names or not hasattr(self, method):
            raise http.method_not_allowed(*self.allowed_methods)
        who = principal(request)
        if request.method not in ("GET", "HEAD"):
            who.require(self.write_scope)
        elif self.read_scope_too not in who.scopes:
            who.require(self.read_scope)

    @property
    def default_response_headers(self) -> dict[str, str]:
        """Answers hold live numbers, and once a key: none is kept anywhere."""
        return {"Cache-Control": "no-store"}

    def get_exception_handler(self) -> Callable[..., Response]:
        """Ours."""
        return problem_response


def keyring() -> KeyRing:
    """The keys that count now."""
    server = running.server()
    if server is not None:
        return server.keyring
    ring = KeyRing()
    ring.load(live_keys())
    return ring


def principal(request: Request) -> Principal:
    """Who asks."""
    return cast(Principal, request.auth)


def actor(request: Request) -> Actor:
    """Who changes something, for the change log; the caller's X-Request-ID groups what one action does."""
    sent = request.META.get("HTTP_X_REQUEST_ID", "")
    return Actor("key", principal(request).key_id, sent if _request_id.fullmatch(sent) else uuid.uuid4().hex)


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """Any exception of a view as a problem document."""
    problem = as_problem(error)
    if problem is None:
        log.error("%s failed", context["request"].path, exc_info=error)
        problem = Problem(500, "internal", "The relay failed; its log says why.")
    return Response(
        problem.body(), problem.status, headers=_problem_headers(problem), content_type="application/problem+json"
    )


def as_problem(error: Exception) -> Problem | None:
    """What the caller is told about an exception; None for a bug."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, TimeoutError):
        return Problem(503, "engine-unavailable", "The server is too busy to answer. Try again.", retry_after_s=1.0)
    if isinstance(error, RequestDataTooBig):
        return http.body_too_large(http.BODY_LIMIT)
    if isinstance(error, Http404):
        return Problem(404, "not-found", "There is nothing at this address.")
    if isinstance(error, MethodNotAllowed):
        return Problem(405, "method-not-allowed", str(error.detail))
    return None


def _problem_headers(problem: Problem) -> dict[str, str]:
    headers = {name.decode().title(): value.decode() for name, value in problem.headers}
    retry_after = problem.retry_after()
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="token-relay"'
    return headers


@csrf_exempt
def nothing_here(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """Answers every address of the API that is none, also one with a slash too many."""
    problem = Problem(404, "not-found", "There is nothing at this address. GET /api/v1/schema lists what there is.")
    return HttpResponse(http.encode_json(problem.body()), status=404, content_type="application/problem+json")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's own 400: above all a Host that this relay does not answer to."""
    detail = "This request cannot be read."
    if isinstance(exception, DisallowedHost):
        detail = "The relay does not answer to this host name. Its operator can add it: RELAY_ALLOWED_HOSTS, RELAY_PUBLIC_URL."
    if not request.path.startswith("/api/"):
        return HttpResponse(detail, status=400, content_type="text/plain; charset=utf-8")
    body = http.encode_json(Problem(400, "invalid", detail, errors={"Host": [detail]}).body())
    return HttpResponse(body, status=400, content_type="application/problem+json")


def read_object(request: Request, *, may_be_empty: bool = False) -> tuple[dict[str, Any], str]:
    """The body's fields, and its `reason`. Raises 400 `invalid`, 413 `body-too-large`, 415 `not-json`."""
    body = request.body
    if len(body) > http.BODY_LIMIT:
        raise http.body_too_large(http.BODY_LIMIT)
    if not body and not may_be_empty:
        raise invalid("body", "send a JSON object")
    if body and (request.content_type or "").split(";", 1)[0].strip().lower() != "application/json":
        raise Problem(415, "not-json", "Send the body with Content-Type: application/json.")
    fields = http.decode(_object, body)
    reason = fields.pop("reason", "")
    if not isinstance(reason, str):
        raise invalid("reason", "must be a text")
    return fields, checked_reason(reason)


def read_nothing(request: Request) -> str:
    """The reason in a body that may hold nothing else, or be empty."""
    fields, reason = read_object(request, may_be_empty=True)
    for field in fields:
        raise invalid(field, "unknown field; only `reason` may stand here")
    return reason


def query_reason(request: Request) -> str:
    """The reason of a DELETE."""
    return checked_reason(request.GET.get("reason", ""))


def query_flag(request: Request, name: str) -> bool:
    """`true` or `false` (the default). Raises 400 `invalid`."""
    text = request.GET.get(name, "false")
    if text not in ("true", "false"):
        raise invalid(name, "must be true or false")
    return text == "true"


def query_range(request: Request, default: str) -> int:
    """`?range=` in seconds, such as 15m or 24h. Raises 400 `invalid`."""
    text = request.GET.get("range", default)
    if not re.fullmatch(r"[0-9]{1,6}[smhd]", text) or not 1 <= int(text[:-1]) * UNITS[text[-1]] <= RANGE_LIMIT_S:
        raise invalid("range", "a number with s, m, h or d, such as 15m or 1h; at most 366d")
    return int(text[:-1]) * UNITS[text[-1]]


def if_match(request: Request) -> frozenset[int] | None:
    """The versions that If-Match allows; None: any. Tags that are none of ours match nothing. Raises 400 `invalid`."""
    header = request.META.get("HTTP_IF_MATCH")
    if header is None or header.strip() == "*":
        return None
    tags = [tag.strip() for tag in header.split(",")]
    if not all(re.fullmatch(r'(?:W/)?"[\x21\x23-\x7e]*"', tag) for tag in tags):
        raise invalid("If-Match", 'send the ETag of the pool as it was read, such as "3", or *')
    return frozenset(int(tag[1:-1]) for tag in tags if re.fullmatch(r'"[0-9]{1,18}"', tag))


def visible_tenant(request: Request, asked: str | None = None) -> tuple[bool, str | None]:
    """Whether anything can be seen, and of which tenant only (None: all). `read` alone sees its own tenant's."""
    who = principal(request)
    if "operate" in who.scopes:
        return True, asked
    return asked in (None, who.tenant), who.tenant


def page_limit(request: Request) -> int:
    """`?limit=`. Raises 400 `invalid`."""
    text = request.GET.get("limit", str(PAGE_DEFAULT))
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= PAGE_LIMIT:
        raise invalid("limit", f"must be 1 to {PAGE_LIMIT}")
    return int(text)


def page_cursor(request: Request, kind: type[C]) -> C | None:
    """`?cursor=` of an earlier page. Raises 400 `invalid`."""
    text = request.GET.get("cursor")
    if text is None:
        return None
    try:
        value = msgspec.json.decode(base64.urlsafe_b64decode(text.encode("ascii")), type=kind)
    except (binascii.Error, ValueError):
        raise invalid("cursor", "take it from `next` of the page before, and leave it out for the first") from None
    if (isinstance(value, int) and not 0 <= value < 2**62) or (isinstance(value, str) and "\x00" in value):
        raise invalid("cursor", "take it from `next` of the page before, and leave it out for the first")
    return value


def make_cursor(value: int | str) -> str:
    """What `next` says for the page after the item or offset `value`."""
    return base64.urlsafe_b64encode(http.encode_json(value)).decode()


def named_page(request: Request, rows: QuerySet[M], field: str = "name") -> tuple[list[M], str | None]:
    """A page of rows in the order of a unique text field, and the next page's cursor."""
    limit, after = page_limit(request), page_cursor(request, str)
    if after is not None:
        rows = rows.filter(**{f"{field}__gt": after})
    found = list(rows.order_by(field)[: limit + 1])
    if len(found) <= limit:
        return found, None
    value: Any = found[limit - 1]
    for part in field.split("__"):
        value = getattr(value, part)
    return found[:limit], make_cursor(value)


def offset_page(request: Request, fetch: Callable[[int, int], list[Any]]) -> tuple[list[Any], str | None]:
    """A page of what `fetch(offset, limit)` gives: for what has no key to go on from."""
    limit, offset = page_limit(request), page_cursor(request, int) or 0
    found = fetch(offset, limit + 1)
    return found[:limit], make_cursor(offset + limit) if len(found) > limit else None


def listed(items: list[Any], following: str | None) -> Response:
    """A list's answer."""
    return Response({"items": items, "next": following})
