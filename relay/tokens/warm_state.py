"""How far a warm-up came, so that the same command goes on after an interruption: one small file for each warm-up."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from relay.tokens.corpus import Input, Place


class Line(Struct, array_like=True, frozen=True):
    """A line of the file: this input was read up to there."""

    key: str
    place: Place


class WarmState:
    """The places by input. What a warm-up is, `identity` says: tokenizer, options, and where its counts are kept.

    A file that has changed has another key, and is read anew. Lines are only appended, after the counts are done: a kill
    loses one batch.
    """

    def __init__(self, folder: Path, identity: Iterable[str]) -> None:
        name = blake2b("\0".join(identity).encode(), digest_size=12).hexdigest()
        self._path = folder / f"{name}.jsonl"
        self._places: dict[str, Place] = {}
        self._stream: BinaryIO | None = None

    def load(self) -> None:
        """Reads what an interrupted warm-up left. A line that was cut off ends it."""
        if not self._path.exists():
            return
        decoder = msgspec.json.Decoder(Line)
        for data in self._path.read_bytes().splitlines():
            try:
                line = decoder.decode(data)
            except msgspec.DecodeError:
                break
            self._places[line.key] = line.place

    def place(self, source: Input) -> Place:
        """Where to go on."""
        return Place() if source.key is None else self._places.get(source.key, Place())

    def note(self, places: Iterable[tuple[Input, Place]]) -> None:
        """Everything before these places is done. Raises OSError."""
        lines = [Line(source.key, place) for source, place in places if source.key is not None]
        if self._stream is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self._path.open("wb")
            lines = [Line(key, place) for key, place in self._places.items()] + lines
        self._places.update((line.key, line.place) for line in lines)
        self._stream.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
        self._stream.flush()

    def close(self, *, done: bool) -> None:
        """Ends; when all is `done` the next warm-up begins anew."""
        if self._stream is not None:
            self._stream.close()
        if done:
            self._path.unlink(missing_ok=True)
