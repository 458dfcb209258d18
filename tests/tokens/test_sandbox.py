"""Chat templates run as transformers runs them, and neither for ever nor without bounds."""

from __future__ import annotations

import time
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from relay.tokens.sandbox import TemplateFault, TemplateRefused, compiled

MESSAGES = [
    {"role": "system", "content": " Be <nice> & kind. "},
    {"role": "user", "content": "é 世 'x'\n"},
    {"role": "assistant", "content": "ok"},
]
TOOLS = [
    {"type": "function", "function": {"name": "f", "description": "<é>", "parameters": {"b": 1, "a": [True, None]}}}
]


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ m.role }}{% if not loop.last %},{% endif %}{% endfor %}",
        "{%- for m in messages %}\n    {%- if m['role'] == 'user' %}\n<u>{{ m['content'] | trim }}\n    {%- endif %}\n{%- endfor %}\nend\n",
        "{{ tools | tojson }}|{{ tools | tojson(indent=2) }}|{{ tools | tojson(separators=(',', ':'), sort_keys=true) }}",
        "{{ tools | tojson(ensure_ascii=true) }}",
        "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + loop.index0 %}{% endfor %}{{ ns.n }}",
        "{% macro show(m) %}[{{ m.content | upper }}]{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}",
        "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
        "{% for m in messages if m.role != 'system' %}{{ m.content ~ '|' ~ m.role ~ loop.last }}{% else %}none{% endfor %}",
        "{{ messages | map(attribute='role') | join(', ') }} {{ messages | length }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
        "{% set x %}{{ messages[0].content }}!{% endset %}{{ x }}{{ 'ab' * 3 }}{{ '%s-%d' % ('a', 3) }}{{ '{} {}'.format(1, 2) }}",
        "{{ bos_token }}{{ add_generation_prompt }}{{ documents }}{{ unheard_of is defined }}{{ dict(a=1).a }}{{ strftime_now('%Y') }}",
        "{% for i in range(3) %}{% for m in messages %}{{ i }}{{ m.content.split(' ')[-1].strip() }}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_renders_as_transformers_renders_it(source: str) -> None:
    fields: dict[str, Any] = {"tools": TOOLS, "add_generation_prompt": True, "bos_token": "<s>"}
    (wanted,), _ = render_jinja_template([MESSAGES], chat_template=source, **fields)
    assert compiled(source).render({"messages": MESSAGES, "documents": None, **fields}) == wanted


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in messages * 1000 %}{% for b in messages * 1000 %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(100000) %}{{ range(100000) | sum }}{% endfor %}",
        "{{ 'a' * 10000000000 }}",
        "{{ 'a'.center(10 ** 12) }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% for i in range(10000) %}{{ 'a' * 10000 }}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
    ],
)
def test_a_template_that_would_not_end_or_fill_the_memory_is_stopped(source: str) -> None:
    began = time.process_time()
    with pytest.raises(TemplateFault):
        compiled(source).render({"messages": MESSAGES})
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__()[0]() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages[0].content.no.such.thing }}",
        "{% include 'x' %}",
        "{{ lipsum(n=100000) }}",
    ],
)
def test_a_template_reaches_nothing_but_what_it_is_given(source: str) -> None:
    with pytest.raises(TemplateFault):
        compiled(source).render({"messages": MESSAGES})


def test_a_refusal_has_the_templates_own_words() -> None:
    with pytest.raises(TemplateRefused, match="one at a time"):
        compiled("{{ raise_exception('one at a time') }}").render({})


def test_what_is_no_template_is_a_fault() -> None:
    with pytest.raises(TemplateFault, match="not a valid template"):
        compiled("{% for m in messages %}")


def test_whether_a_template_takes_parts_is_seen() -> None:
    assert compiled("{% for part in m['content'] %}{% endfor %}").takes_parts
    assert compiled("{% for part in m.content | list %}{% endfor %}").takes_parts
    assert not compiled("{% for m in messages %}{{ m.content }}{% endfor %}").takes_parts
