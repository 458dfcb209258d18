"""Anthropic's count of a Messages request. Claude's vocabulary is not public: what is counted here is the model that is
configured under the name that is asked for, with its own chat template and tokenizer, and the answer says so."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from relay.http import Handler, Problem, invalid
from relay.tenants.keyring import KeyRing, Principal
from relay.tokens.answers import EstimateNote
from relay.tokens.chat import Chat, Message
from relay.tokens.face import FaceAnswer, chat_tally, face
from relay.tokens.service import TokenService

PATH = "/v1/messages/count_tokens"

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    415: "invalid_request_error",
    405: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class MessagesBody(Struct):
    """Anthropic's request: `system` is a text or text blocks, contents are texts or blocks."""

    model: str
    messages: list[Message]
    system: str | list[dict[str, Any]] = ""
    tools: list[dict[str, Any]] | None = None


class Made(Struct, frozen=True):
    """How the number was made: the configured model, and whether it is that model's own number."""

    model: str
    exact: bool
    tokenizer: str | None
    estimate: EstimateNote | None


class MessagesAnswer(Struct, frozen=True):
    """Anthropic's answer, and the relay's word on it."""

    input_tokens: int
    x_relay: Made


def messages_face(service: TokenService, keyring: KeyRing) -> dict[str, Handler]:
    """The handler by its path."""
    return {PATH: face(service, keyring, MessagesBody, count_tokens, anthropic_error)}


async def count_tokens(service: TokenService, who: Principal, body: MessagesBody) -> FaceAnswer:
    """POST /v1/messages/count_tokens."""
    found = await chat_tally(service, who.tenant, body.model, chat_of(body))
    slot = service.slot(body.model)
    note = None if found.estimate is UNSET else found.estimate
    made = Made(body.model if slot is None else slot.name, found.exact, found.tokenizer, note)
    return FaceAnswer(MessagesAnswer(found.count, made), found.exact)


def anthropic_error(problem: Problem) -> Any:
    """As Anthropic answers."""
    return {"type": "error", "error": {"type": TYPES.get(problem.status, "api_error"), "message": problem.detail}}


def chat_of(body: MessagesBody) -> Chat:
    """The request as a chat in the form that templates know."""
    messages: list[Message] = []
    system = body.system if isinstance(body.system, str) else _text(body.system, "system")
    if system:
        messages.append({"role": "system", "content": system})
    for index, message in enumerate(body.messages):
        messages.extend(_messages(message, f"messages[{index}]"))
    tools = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(body.tools or ())]
    return Chat(messages, tools or None)


def _messages(message: Message, field: str) -> list[Message]:
    """One message as one or more: results of tools are messages of their own."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list):
        raise invalid(f"{field}.content", "a text or a list of blocks")
    texts: list[str] = []
    calls: list[Message] = []
    results: list[Message] = []
    thoughts: list[str] = []
    for place, block in enumerate(content):
        where = f"{field}.content[{place}]"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            texts.append(_string(block, "text", where))
        elif kind == "thinking":
            thoughts.append(_string(block, "thinking", where))
        elif kind == "tool_use":
            function = {"name": _string(block, "name", where), "arguments": block.get("input") or {}}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "tool_result":
            inner = block.get("content") or ""
            text = inner if isinstance(inner, str) else _text(inner, f"{where}.content")
            results.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text})
        elif kind != "redacted_thinking":
            raise invalid(where, "only text, thinking, tool_use and tool_result blocks can be counted here")
    found = list(results)
    if texts or calls or thoughts or not results:
        plain: Message = {"role": role, "content": "\n".join(texts)}
        if calls:
            plain["tool_calls"] = calls
        if thoughts:
            plain["reasoning_content"] = "\n".join(thoughts)
        found.append(plain)
    return found


def _text(blocks: Any, field: str) -> str:
    if not isinstance(blocks, list):
        raise invalid(field, "a text or a list of text blocks")
    texts = []
    for place, block in enumerate(blocks):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise invalid(f"{field}[{place}]", "only text blocks can be counted here")
        texts.append(_string(block, "text", f"{field}[{place}]"))
    return "\n".join(texts)


def _string(block: dict[str, Any], key: str, field: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise invalid(f"{field}.{key}", "must be a text")
    return value


def _tool(tool: dict[str, Any], field: str) -> dict[str, Any]:
    name = tool.get("name")
    if not isinstance(name, str):
        raise invalid(f"{field}.name", "must be a text")
    function = {
        "name": name,
        "description": tool.get("description") or "",
        "parameters": tool.get("input_schema") or {},
    }
    return {"type": "function", "function": function}
