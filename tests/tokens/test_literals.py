"""Added tokens in texts: split as the library splits, and kept apart in chats with every kind of tokenizer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from relay.tokens.literals import CONTENT, Literals
from relay.tokens.registry import ModelSpec
from tests.tokens import families
from tests.tokens.desk import Desk

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}"
CONTROL = ["<|im_start|>", "<|im_end|>"]
TOOL = "</tool>"  # an added token that the template never writes: without it the tokenizer is the reference
WORDS = (
    "hello",
    " world",
    " ",
    "\n",
    "  ",
    "<",
    "</",
    "tool>",
    TOOL,
    f"a{TOOL}",
    f"{TOOL} b",
    "permits",
    "é",
    "|>",
    "<|im_",
)


def trained(
    tool: bool, pre_tokenizer: pre_tokenizers.PreTokenizer | None, normalizer: normalizers.Normalizer | None = None
) -> Tokenizer:
    """A small BPE, with the added token or without."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    alphabet = [*pre_tokenizers.ByteLevel.alphabet(), "▁", *"é世\n"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=alphabet, special_tokens=["<unk>", *CONTROL], show_progress=False
    )
    made.train_from_iterator(families.LINES, trainer)
    if tool:
        made.add_tokens([AddedToken(TOOL, normalized=False)])
    return made


KINDS: dict[str, Callable[[bool], Tokenizer]] = {
    "byte-level": lambda tool: trained(tool, pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "byte-level, prefixed": lambda tool: trained(tool, pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "metaspace": lambda tool: trained(tool, pre_tokenizers.Metaspace()),
    "metaspace, first only": lambda tool: trained(tool, pre_tokenizers.Metaspace(prepend_scheme="first")),
    "prepended": lambda tool: trained(
        tool, None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    ),
    "lower case": lambda tool: trained(tool, pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()),
}


@pytest.fixture(scope="module")
def kinds(token_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The API with a model of each kind."""
    folder = tmp_path_factory.mktemp("literals")
    specs = []
    for number, (name, make) in enumerate(KINDS.items()):
        place = families.written(make(True), folder / str(number))
        specs.append(ModelSpec(name, "path", str(place), chat_template=TEMPLATE))
    desk = Desk(token_data, specs)
    desk.run(desk.all_loaded())
    yield desk
    desk.close()


@pytest.mark.parametrize("kind", KINDS)
def test_an_added_token_in_a_message_is_text_with_every_kind_of_tokenizer(kinds: Desk, kind: str) -> None:
    source = random.Random(kind)
    reference, own = KINDS[kind](False), KINDS[kind](True)
    for _ in range(60):
        contents = ["".join(source.choices(WORDS, k=source.randint(0, 12))) for _ in range(source.randint(1, 3))]
        messages = [{"role": "user", "content": content} for content in contents]
        body = {"model": kind, "messages": messages, "offsets": True}
        text = "".join(f"<|im_start|>user\n{content}<|im_end|>\n" for content in contents) + "<|im_start|>assistant\n"
        found = kinds.post("encode", body).body
        wanted = reference.encode(text, add_special_tokens=False)
        assert (found["text"], found["ids"]) == (text, wanted.ids)
        assert found["offsets"] == [list(each) for each in wanted.offsets]
        parsed = kinds.post("encode", {**body, "allow_special": True}).body
        assert parsed["ids"] == own.encode(text, add_special_tokens=False).ids


def test_texts_are_split_as_the_library_splits_them() -> None:
    made = trained(False, pre_tokenizers.ByteLevel(add_prefix_space=False))
    made.add_special_tokens(
        [
            AddedToken("<right>", normalized=False, rstrip=True, special=True),
            AddedToken("<left>", normalized=False, lstrip=True, special=True),
            AddedToken("word", normalized=False, single_word=True),
            AddedToken("<a>", normalized=False),
            AddedToken("<a><b>", normalized=False),
            AddedToken("plain", normalized=True),
        ]
    )
    added = made.get_added_tokens_decoder()
    literals = Literals(added, normalizes=False)
    source = random.Random(7)
    pieces = [token.content for token in added.values()] + [" ", "  ", "\n", "x", "word", "<", "<b>", "é", ""]
    for _ in range(2000):
        text = "".join(source.choices(pieces, k=source.randint(0, 12)))
        encoding = made.encode(text, add_special_tokens=False)
        wanted = [
            (token_id, *span)
            for token_id, span in zip(encoding.ids, encoding.offsets, strict=True)
            if token_id in added
        ]
        runs = literals.split(text)
        assert [(run.token, run.start, run.end) for run in runs if run.token is not None] == wanted
        assert "".join(text[run.start : run.end] for run in runs) == text


def test_marks_stand_before_every_spelling_even_where_they_overlap() -> None:
    added = {token_id: AddedToken(content) for token_id, content in enumerate(("ab", "bc", "c"))}
    literals = Literals(added, normalizes=False)
    marked = literals.marked("abc-c", literals.in_text("abc-c"), edges=False)
    assert marked == f"{CONTENT}a{CONTENT}b{CONTENT}c-{CONTENT}c"
    assert [run.token for run in literals.split(marked, marks=True)] == [None]
    assert [run.token for run in literals.split("abc-c")] == [0, 2, None, 2]


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("hello", (False, False)),
        ("a < b", (False, False)),
        ("hello <", (False, True)),
        ("> quoted", (True, False)),
        (" end|> and <|im_  ", (True, True)),
        ("im_", (True, True)),
        ("", (False, False)),
    ],
)
def test_edges_where_a_token_could_come_together_are_seen(text: str, edges: tuple[bool, bool]) -> None:
    literals = Literals({1: AddedToken("<|im_end|>")}, normalizes=False)
    assert literals.edges(text) == edges
