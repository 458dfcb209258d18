"""Counts and ids as the shared cache holds them.

A tag (c: a count, r: ids, z: ids compressed), a CRC-32, then the count or the ids as unsigned 32-bit numbers, little endian.
The CRC is over key, tag and numbers: a value that was damaged, cut or filed under another key is never taken for a count.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array

import zstandard

from relay.tokens.tokenizer import Encoded

COMPRESSED_FROM = 256  # ids; zstd makes about 2 bytes an id of 4
IDS_MOST = 1 << 20
_HEAD = struct.Struct("<cI")
_COUNT = struct.Struct("<I")


class Damaged(Exception):
    """These bytes are no value of this key."""


def pack_count(key: bytes, count: int) -> bytes:
    """A count as bytes."""
    return _sealed(key, b"c", _COUNT.pack(count))


def pack_ids(key: bytes, ids: array[int]) -> bytes:
    """Ids as bytes."""
    plain = _little(ids).tobytes()
    if len(ids) > COMPRESSED_FROM:
        return _sealed(key, b"z", zstandard.ZstdCompressor(level=1).compress(plain))
    return _sealed(key, b"r", plain)


def unpack_count(key: bytes, data: bytes) -> int:
    """The count. Raises Damaged."""
    tag, numbers = _opened(key, data)
    if tag != b"c" or len(numbers) != _COUNT.size:
        raise Damaged
    count: int = _COUNT.unpack(numbers)[0]
    return count


def unpack_ids(key: bytes, data: bytes, largest_id: int) -> Encoded:
    """The ids, none above `largest_id`. Raises Damaged."""
    tag, numbers = _opened(key, data)
    if tag == b"z":
        try:
            numbers = zstandard.ZstdDecompressor().decompress(numbers, max_output_size=4 * IDS_MOST)
        except zstandard.ZstdError:
            raise Damaged from None
    elif tag != b"r":
        raise Damaged
    if len(numbers) % 4:
        raise Damaged
    ids = array("I")
    ids.frombytes(numbers)
    ids = _little(ids)
    if ids and max(ids) > largest_id:
        raise Damaged
    return Encoded(ids)


def _sealed(key: bytes, tag: bytes, numbers: bytes) -> bytes:
    return _HEAD.pack(tag, zlib.crc32(numbers, zlib.crc32(key + tag))) + numbers


def _opened(key: bytes, data: bytes) -> tuple[bytes, bytes]:
    if len(data) < _HEAD.size:
        raise Damaged
    tag, check = _HEAD.unpack_from(data)
    numbers = data[_HEAD.size :]
    if zlib.crc32(numbers, zlib.crc32(key + tag)) != check:
        raise Damaged
    return tag, numbers


def _little(ids: array[int]) -> array[int]:
    if sys.byteorder == "little":
        return ids
    swapped = array("I", ids)
    swapped.byteswap()
    return swapped
