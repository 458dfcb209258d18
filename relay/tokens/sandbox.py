"""Chat templates of models: compiled once, rendered in a sandbox that bounds how long they run and how much they write.

A template comes from a model's repository or from an operator: it is a program of somebody else. It sees plain JSON
values only, and gets the filters, functions and settings that transformers gives it, so that it renders the same text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.visitor import NodeTransformer

STEPS = 1_000_000  # turns of loops and items of ranges in one rendering: about a second
CALL_STEPS = 10
TEXT_LIMIT = 16 * 1024 * 1024  # characters of the output, and of any text made on the way to it
NUMBER_LIMIT = 100_000  # of a width or a repetition
_STEPS_LEFT = "_relay_steps_left"


class TemplateRefused(Exception):
    """The template itself refused the messages; these are its own words."""


class TemplateFault(Exception):
    """The template failed, or ran or wrote too much."""


class ChatTemplate:
    """A compiled template. Any number of threads may render it at once."""

    def __init__(self, source: str) -> None:
        tree = _environment.parse(source)
        self.takes_parts = _takes_parts(tree)
        code = _environment.compile(_Bounds().visit(tree))
        self._template = jinja2.Template.from_code(_environment, code, _environment.make_globals(None))

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables. Raises TemplateRefused, TemplateFault."""
        written: list[str] = []
        size = 0
        try:
            for piece in self._template.generate({**variables, _STEPS_LEFT: [STEPS]}):
                size += len(piece)
                if size > TEXT_LIMIT:
                    raise TemplateFault(f"it wrote more than {TEXT_LIMIT:,} characters")
                written.append(piece)
        except (TemplateRefused, TemplateFault):
            raise
        except Exception as error:  # whatever somebody else's program raises
            raise TemplateFault(f"{type(error).__name__}: {str(error)[:300]}") from error
        return "".join(written)


@lru_cache(maxsize=64)
def compiled(source: str) -> ChatTemplate:
    """The template of a source text. Raises TemplateFault if it is none."""
    try:
        return ChatTemplate(source)
    except (jinja2.TemplateError, SyntaxError, RecursionError) as error:
        raise TemplateFault(f"it is not a valid template: {error}") from error


def _takes_parts(tree: nodes.Template) -> bool:
    """Whether the template goes through the parts of a content. One that does not wants contents as one text."""
    for loop in tree.find_all(nodes.For):
        inside = [loop.iter, *loop.iter.find_all(nodes.Node)]
        if any(isinstance(node, nodes.Name) and node.name == "content" for node in inside):
            return True
        if any(isinstance(node, nodes.Getattr) and node.attr == "content" for node in inside):
            return True
        keys = [node.arg for node in inside if isinstance(node, nodes.Getitem)]
        if any(isinstance(key, nodes.Const) and key.value == "content" for key in keys):
            return True
    return False


class _Bounds(NodeTransformer):
    """Puts a count into every loop, and a bound on every text that is made of others: they double in one line."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        """A loop over what `_steps` counts."""
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_steps", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """A text made with `~`."""
        self.generic_visit(node)
        return _filtered(node, "_bounded")

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        """What a filter gives."""
        self.generic_visit(node)
        return node if node.node is None else _filtered(node, "_bounded")

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        """A text made with `{% set x %}…{% endset %}`."""
        self.generic_visit(node)
        if node.filter is None:
            node.filter = nodes.Filter(None, "_bounded", [], [], None, None, lineno=node.lineno)
        return node


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Counts what a template does. A width or repetition is bounded, for one number can ask for gigabytes."""

    intercepted_binops = frozenset(("+", "*", "**"))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Sums and products of texts and lists are bounded; and a product is quickly long."""
        if operator != "+":
            _check_number(left)
            _check_number(right)
        return _bounded(super().call_binop(context, operator, left, right))

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Counts as steps."""
        _count(context, CALL_STEPS)
        for each in (*args, *kwargs.values()):
            _check_number(each)
        return _bounded(super().call(context, function, *args, **kwargs))


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what the assistant wrote, for training; it renders what is in it."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The body alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _check_number(value: Any) -> None:
    if isinstance(value, int) and abs(value) > NUMBER_LIMIT:
        raise TemplateFault(f"it uses a number above {NUMBER_LIMIT:,}")


def _bounded(value: Any) -> Any:
    if isinstance(value, (str, list)) and len(value) > TEXT_LIMIT:
        raise TemplateFault(f"it made a text of more than {TEXT_LIMIT:,} characters")
    return value


def _count(context: Context, steps: int) -> None:
    left: list[int] | None = context.get(_STEPS_LEFT)
    if left is not None:
        left[0] -= steps
        if left[0] < 0:
            raise TemplateFault(f"it ran for more than {STEPS:,} steps")


@jinja2.pass_context
def _steps(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _count(context, 1)
        yield item


@jinja2.pass_context
def _range(context: Context, *args: int) -> range:
    found = safe_range(*args)
    _count(context, len(found))
    return found


def _raise_exception(message: Any) -> None:
    raise TemplateRefused(str(message)[:500])


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own it escapes nothing for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005  # local time, as transformers gives it


def _sandbox() -> _Sandbox:
    made = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    functions: dict[str, Callable[..., Any]] = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "range": _range,
    }
    made.globals.update(functions)
    del made.globals["lipsum"]
    made.filters["tojson"] = _tojson
    made.filters["_steps"] = _steps
    made.filters["_bounded"] = _bounded
    return made


_environment = _sandbox()
