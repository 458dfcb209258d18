"""Messages as the text that a model's chat template makes of them, and which added tokens in it are the template's own.

An added token that a caller spells in a message (`<|im_end|>`) is text, as it is in a plain text. The template is rendered
twice: with the messages as they are, and with a mark before each such spelling in them. Where both give the same text (marks
aside), what has a mark is the caller's. Where they differ, the template itself looks at that spelling (as Qwen's does at
`</think>`) and reads it as its own: the marks that disturb it are found by halving, and left out.

Pure and slow: call it in a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec import Struct

from relay.http import Problem, invalid
from relay.tokens import owners
from relay.tokens.literals import CONTENT, EDGE, MARKS, Literals, Run
from relay.tokens.sandbox import ChatTemplate, TemplateFault, TemplateRefused, compiled

Message = dict[str, Any]
Change = Callable[[int, str, bool], str]  # a message's index, a text in it, whether that is a key
T = TypeVar("T")

ROLE_LIMIT = 64
RENDERINGS = 24  # tries to find the marks that disturb a template
RENDERINGS_LEAST = 6
RENDERED = 8 * 1024 * 1024  # characters of all tries
WAY_OUT = 'Send "allow_special": true to have all of them parsed.'
TOOLS = -1  # in the place of a message's index: tools and options
_CONTINUE = "\ue0c2"
_REASONING = ("reasoning_content", "thinking", "reasoning")


class Chat(Struct, frozen=True):
    """A conversation as a caller sends it. `options` go to the template as they are, such as `enable_thinking`."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    options: dict[str, Any] = {}


class Prompt(Struct, frozen=True):
    """The text of a chat. `runs` is None where the tokenizer may parse all of it; else which parts are added tokens."""

    text: str
    runs: list[tuple[str, int | None]] | None = None


class Rendering:
    """One chat with one model's template."""

    def __init__(self, source: str | None, special_map: dict[str, str], chat: Chat) -> None:
        if source is None:
            raise no_template()
        self._template: ChatTemplate = _checked(lambda: compiled(source))
        self._special_map = special_map
        self._chat = chat
        self._messages = [
            _prepared(index, message, takes_parts=self._template.takes_parts)
            for index, message in enumerate(_checked_messages(chat))
        ]
        self.text = self._render(self._messages, chat.tools, chat.options)
        self._left = min(RENDERINGS, max(RENDERINGS_LEAST, RENDERED // max(1, len(self.text))))

    def prompt(self, literals: Literals, *, allow_special: bool) -> Prompt:
        """The text, with the template's added tokens told from the callers' words unless `allow_special`."""
        if allow_special:
            return Prompt(self.text)
        groups = self._groups(literals) if literals.ids else []
        if not groups and not literals.hidden:
            return Prompt(self.text)
        away, back = self._spares()

        def render(kept: list[tuple[int, str]]) -> str:
            wanted: dict[int, set[str]] = {}
            for index, content in kept:
                wanted.setdefault(index, set()).add(content)

            def mark(index: int, text: str, is_key: bool) -> str:
                contents = wanted.get(index, set())
                found = {content for content in contents if content and content in text}
                return literals.marked(text.translate(away), found, edges="" in contents and not is_key)

            return self._mapped(mark)

        marked, open_ = self._settled(groups, render, lambda text: text.translate(MARKS).translate(back))
        if any(self._role(index) != "assistant" for index, _ in open_):
            raise invalid("messages", f"too many added tokens in them to tell apart. {WAY_OUT}")
        runs = literals.split(marked, marks=True)
        return Prompt(self.text, [(_text_of(marked, run).translate(back), run.token) for run in runs])

    def owners(self, starts: list[int]) -> list[int | None]:
        """For each place in the text (ascending, in characters) the message in whose words it stands; None: the template."""
        if len(self._messages) > owners.MOST:
            raise invalid("breakdown", f"at most {owners.MOST} messages can be told apart")
        if owners.MARKS.search(self.text):
            raise invalid("breakdown", "the messages hold characters of the private planes, which mark them here")
        wanted: set[int] = set()

        def mark(index: int, text: str, is_key: bool) -> str:
            return text if is_key or index not in wanted else owners.marked(text, index, stripped=stripped)

        def render(kept: list[int]) -> str:
            wanted.clear()
            wanted.update(kept)
            return self._mapped(mark)

        everyone = list(range(len(self._messages)))
        stripped = False
        rendered = render(everyone)
        if (
            owners.MARKS.sub("", rendered) != self.text
        ):  # a template that strips contents needs the marks inside the blanks
            stripped = True
            rendered, _ = self._settled([everyone], render, lambda text: owners.MARKS.sub("", text))
        texts: list[list[str]] = [[] for _ in everyone]
        for index, text, is_key in self._texts():
            if index != TOOLS and not is_key:
                texts[index].append(text.strip() if stripped else text)
        return owners.owners(rendered, texts, starts)

    def _groups(self, literals: Literals) -> list[list[tuple[int, str]]]:
        """What needs a mark: added tokens in messages, and ("") edges. By literal, and the assistant's own last, as
        templates look at those."""
        groups: dict[tuple[bool, str], list[tuple[int, str]]] = {}
        for index, text, is_key in self._texts():
            found = literals.in_text(text)
            if not is_key and any(literals.edges(text)):
                found.add("")
            for content in found:
                groups.setdefault((self._role(index) == "assistant", content), []).append((index, content))
        return [sorted(set(groups[key])) for key in sorted(groups)]

    def _settled(
        self, groups: list[list[T]], render: Callable[[list[T]], str], bare: Callable[[str], str]
    ) -> tuple[str, list[T]]:
        """The rendering with as many marks as leave the text what it is, and those for which no try was left.

        One of several that failed together (the template looks at such) and could not be tried alone is left out.
        """
        marked = render([unit for group in groups for unit in group])
        if bare(marked) == self.text:
            return marked, []
        kept: list[T] = []
        queue = [(group, False) for group in groups]
        while queue and self._left > 0:
            group, _ = queue.pop(0)
            self._left -= 1
            if bare(render(kept + group)) == self.text:
                kept += group
            elif len(group) > 1:
                # whole groups first: which of many messages a template looks at is the smaller question
                queue += [(half, True) for half in _halves(group)]
        return render(kept), [unit for group, is_part in queue for unit in group if not is_part]

    def _texts(self) -> Iterator[tuple[int, str, bool]]:
        """Every text of the callers' that the template may write: its message's index, and whether it is a key."""
        found: list[tuple[int, str, bool]] = []

        def note(index: int, text: str, is_key: bool) -> str:
            found.append((index, text, is_key))
            return text

        self._map(note)
        yield from found

    def _mapped(self, change: Change) -> str:
        """The text with every text of the callers' changed. A template that then fails gives a text that is equal to none."""
        try:
            return self._render(*self._map(change))
        except Problem:
            return ""

    def _map(self, change: Change) -> tuple[list[Message], Any, Any]:
        messages = [
            {key: value if key == "role" else _map(value, index, change) for key, value in message.items()}
            for index, message in enumerate(self._messages)
        ]
        return messages, _map(self._chat.tools, TOOLS, change), _map(self._chat.options, TOOLS, change)

    def _render(self, messages: list[Message], tools: Any, options: dict[str, Any]) -> str:
        if self._chat.continue_final_message:
            messages = [*messages[:-1], _left_open(messages[-1])]
        variables = {
            **self._special_map,
            "documents": None,
            **options,
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": self._chat.add_generation_prompt,
        }
        text = _checked(lambda: self._template.render(variables))
        return _opened(text) if self._chat.continue_final_message else text

    def _role(self, index: int) -> str:
        return "" if index == TOOLS else str(self._messages[index]["role"])

    def _spares(self) -> tuple[dict[int, str], dict[int, str]]:
        """How the marks' own characters, where a caller sends them, are put aside and back."""
        sent = {each for each in CONTENT + EDGE if any(each in text for _, text, _ in self._texts())}
        if not sent:
            return {}, {}
        present = set(self.text)
        free = (chr(code) for code in range(0x100000, 0x10FFFD) if chr(code) not in present)
        spare = dict(zip(sorted(sent), free, strict=False))
        return {ord(each): other for each, other in spare.items()}, {ord(other): each for each, other in spare.items()}


def no_template() -> Problem:
    """400: a text is what such a model takes."""
    return Problem(
        400,
        "no-chat-template",
        "This model has no chat template. Send text, or set chat_template of the model.",
        errors={"messages": ["the model has no chat template"]},
    )


def _checked(make: Callable[[], T]) -> T:
    try:
        return make()
    except TemplateRefused as refusal:
        raise invalid("messages", f"the chat template refuses them: {refusal}") from None
    except TemplateFault as fault:
        raise invalid("messages", f"the chat template cannot render them: {fault}") from None


def _checked_messages(chat: Chat) -> list[Message]:
    if not chat.messages:
        raise invalid("messages", "send at least one message")
    for index, message in enumerate(chat.messages):
        role = message.get("role")
        plain = isinstance(role, str) and role.isascii() and role.replace("_", "").replace("-", "").isalnum()
        if not plain or len(str(role)) > ROLE_LIMIT:
            raise invalid(f"messages[{index}].role", "a word such as system, user, assistant or tool")
    if chat.continue_final_message and not isinstance(chat.messages[-1].get("content"), (str, list)):
        raise invalid("continue_final_message", "the last message has no content to continue")
    return chat.messages


def _prepared(index: int, message: Message, *, takes_parts: bool) -> Message:
    """A message as transformers gives it to a template: no nulls, reasoning under all its names; texts in parts joined."""
    found = {key: value for key, value in message.items() if value is not None}
    reasoning = next((found[key] for key in _REASONING if key in found), None)
    if reasoning is not None:
        found = {"thinking": reasoning, **found, "reasoning_content": reasoning}
    content = found.get("content")
    if isinstance(content, list):
        texts = [_part(part, f"messages[{index}].content[{place}]") for place, part in enumerate(content)]
        if not takes_parts:
            found["content"] = "\n".join(texts)
    elif content is not None and not isinstance(content, str):
        raise invalid(f"messages[{index}].content", "a text, or a list of parts of type text")
    return found


def _part(part: Any, field: str) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else None
    if not isinstance(text, str):
        raise invalid(field, "only parts of type text can be counted")
    return text


def _map(value: Any, index: int, change: Change) -> Any:
    if isinstance(value, str):
        return change(index, value, False)
    if isinstance(value, dict):
        return {change(index, key, True): _map(item, index, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map(item, index, change) for item in value]
    return value


def _left_open(message: Message) -> Message:
    """The last message with a mark where it goes on."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [dict(part) for part in content]
        parts[-1]["text"] += f"{_CONTINUE} "
        return {**message, "content": parts}
    return {**message, "content": f"{content}{_CONTINUE} "}


def _opened(text: str) -> str:
    """The text up to where the last message goes on; without its last blanks if the template takes such away."""
    place = text.rfind(_CONTINUE)
    if place < 0:
        raise invalid("continue_final_message", "the chat template leaves the last message out")
    kept = text[:place]
    return kept if text[place + 1 : place + 2] == " " else kept.rstrip()


def _text_of(marked: str, run: Run) -> str:
    return marked[run.start : run.end].translate(MARKS)


def _halves(units: list[T]) -> list[list[T]]:
    middle = len(units) // 2
    return [half for half in (units[:middle], units[middle:]) if half]
