"""One loaded gpt2 and one API for all token tests; tests that change configuration make their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from relay.tokens.sources import load
from relay.tokens.tokenizer import Tokenizer
from tests.conftest import unavailable
from tests.tokens import vocabularies
from tests.tokens.desk import GPT2, Desk
from tests.tokens.fuzz import Judge

NewDesk = Callable[..., Desk]
Family = Callable[[str], Judge]


@pytest.fixture(scope="session")
def token_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder for tokenizers."""
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(scope="session")
def gpt2(token_data: Path) -> Tokenizer:
    """GPT-2, loaded as the relay loads it."""
    return load(GPT2, token_data).tokenizer


@pytest.fixture(scope="session")
def desk(token_data: Path) -> Iterator[Desk]:
    """The API with gpt2, shared: use texts of your own where the source matters."""
    made = Desk(token_data)
    yield made
    made.close()


@pytest.fixture
def new_desk(token_data: Path) -> Iterator[NewDesk]:
    """Makes APIs of the test's own."""
    made: list[Desk] = []

    def make(*specs: Any, **options: Any) -> Desk:
        made.append(Desk(token_data, specs or (GPT2,), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def family() -> Family:
    """Tokenizers with real vocabularies, by name (`vocabularies.FAMILIES`). Skips without network; with CI=true fails."""

    @cache
    def load_family(name: str) -> Judge:
        try:
            return Judge(Tokenizer(vocabularies.document(name)), vocabularies.reference(name))
        except vocabularies.Unavailable as why:
            unavailable(str(why))

    return load_family
