"""The embedded engine's memory across restarts: an append file of checksummed frames, and snapshots (rule 20).

Every turn of the event loop that changed something writes one frame, before its answers go out. Segment N holds what
came after snapshot N; when a segment has grown large, segment N + 1 begins and a thread writes snapshot N + 1.
No asyncio, no pools: `ledger.py` decides when, `courier.py` what is written.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import Struct, structs

from relay.permits.engine.base import End, Lease

log = logging.getLogger("relay.journal")

FORMAT = 1
_MAGIC = b"token-relay journal "
_HEADER = _MAGIC + b"%03d\n" % FORMAT
_FRAME = struct.Struct("<II")  # length and crc32 of the payload, then the crc32 of these two
_CHECK = struct.Struct("<I")
_HEAD_BYTES = _FRAME.size + _CHECK.size
_SNAPSHOT_CHUNK = 1000  # records a frame


class Renewal(Struct, frozen=True, array_like=True, tag=2):
    """A lease was renewed with this time to live."""

    lease_id: str
    ttl_us: int
    expires_us: int


class Fence(Struct, frozen=True, array_like=True, tag=4):
    """The last fencing token of a pool's name, which outlives the pool."""

    pool: str
    token: int


class Clock(Struct, frozen=True, array_like=True, tag=5):
    """The engine's clock."""

    now_us: int


class Changed(Struct, frozen=True, array_like=True, tag=6):
    """What a live lease holds became another: its permits, and those that it was granted with (0: the same)."""

    lease_id: str
    pool: str
    permits: int
    asked: int
    yielded: bool
    fencing_token: int

    @classmethod
    def of(cls, lease: Lease) -> Changed:
        """What the lease holds now."""
        return cls(lease.lease_id, lease.pool, lease.ask.permits, lease.asked, lease.yielded, lease.fencing_token)


# A lease that was granted (in a snapshot: that lives), its renewals and changes, its end, and what outlives it.
Record = Lease | Renewal | End | Fence | Clock | Changed

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[Record])


class JournalRefused(Exception):
    """The journal cannot be used; the message is one line for the operator."""


class Recovered:
    """The state that a journal tells: live leases, the last ends, fencing tokens, the clock."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.ends: dict[str, End] = {}
        self.fences: dict[str, int] = {}
        self.now_us = 0
        self.empty = True  # a new data folder

    def apply(self, record: Record) -> None:
        """Takes one record over."""
        self.empty = False
        if isinstance(record, Lease):
            self.leases[record.lease_id] = record
            self.fences[record.pool] = max(self.fences.get(record.pool, 0), record.fencing_token)
            self.now_us = max(self.now_us, record.acquired_us)
        elif isinstance(record, Renewal):
            lease = self.leases.get(record.lease_id)
            if lease is not None:
                lease.ttl_us, lease.expires_us = record.ttl_us, record.expires_us
        elif isinstance(record, Changed):
            lease = self.leases.get(record.lease_id)
            if lease is not None:
                lease.ask = structs.replace(lease.ask, permits=record.permits)
                lease.asked, lease.yielded = record.asked, record.yielded
                lease.fencing_token = record.fencing_token
            self.fences[record.pool] = max(self.fences.get(record.pool, 0), record.fencing_token)
        elif isinstance(record, End):
            self.leases.pop(record.lease_id, None)
            self.ends[record.lease_id] = record
            self.now_us = max(self.now_us, record.at_us)
        elif isinstance(record, Fence):
            self.fences[record.pool] = max(self.fences.get(record.pool, 0), record.token)
        else:
            self.now_us = max(self.now_us, record.now_us)


class Journal:
    """The files in one folder. Not thread-safe, but `sync` and `write_snapshot` may run in another thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.size = 0  # bytes in the present segment
        self._number = 0
        self._file = -1

    def recover(self) -> Recovered:
        """Reads everything. Raises JournalRefused, naming the file, if it is of another format or damaged."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in self.folder.glob("*.part"):  # a snapshot that was never finished
            part.unlink()
        state = Recovered()
        snapshots = self._numbers("snapshot")
        first = snapshots[-1] if snapshots else 0
        self._number = first
        if snapshots:
            self._replay(self._path("snapshot", first), state, whole=True)
        segments = [number for number in self._numbers("journal") if number >= first]
        wanted = range(first or 1, segments[-1] + 1) if segments else range(first, first + len(snapshots[-1:]))
        for number in wanted:
            if number not in segments:
                raise JournalRefused(f"{self._path('journal', number)} is missing; restore the whole data folder.")
            self._replay(self._path("journal", number), state, last=number == segments[-1])
            self._number = number
        return state

    def start_segment(self) -> None:
        """Begins the next segment: what follows is written there. Raises OSError."""
        path = self._path("journal", self._number + 1)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _write_all(file, _HEADER)
        except OSError:
            os.close(file)
            raise
        self.close()
        self._file, self.size = file, len(_HEADER)
        self._number += 1

    def write_snapshot(self, records: Iterable[Record]) -> None:
        """Writes the state as it was when the present segment began, then drops what is older. Raises OSError."""
        number = self._number
        path = self._path("snapshot", number)
        part = path.with_name(path.name + ".part")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(file, _HEADER)
            for chunk in _chunks(records):
                _write_all(file, _framed(chunk))
            os.fsync(file)
        finally:
            os.close(file)
        part.rename(path)
        self._sync_folder()
        for kind in ("journal", "snapshot"):
            for old in self._numbers(kind):
                if old < number:
                    self._path(kind, old).unlink(missing_ok=True)

    def write(self, records: list[Record]) -> None:
        """Appends one frame with one write. Raises OSError; the frame may then be torn."""
        frame = _framed(records)
        _write_all(self._file, frame)
        self.size += len(frame)

    def sync(self) -> None:
        """Makes what was written survive a power cut. Raises OSError."""
        os.fsync(self._file)

    def close(self) -> None:
        """Closes the segment."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _path(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number:06d}"

    def _numbers(self, kind: str) -> list[int]:
        names = (path.name.rpartition("-") for path in self.folder.glob(f"{kind}-*"))
        return sorted(int(number) for _, _, number in names if number.isascii() and number.isdigit())

    def _replay(self, path: Path, state: Recovered, *, whole: bool = False, last: bool = False) -> None:
        data = path.read_bytes()
        if not data.startswith(_HEADER):
            if last and _HEADER.startswith(data):
                return  # the segment was being begun
            if data.startswith(_MAGIC):
                version = data[len(_MAGIC) : len(_MAGIC) + 3].decode(errors="replace").lstrip("0")
                raise JournalRefused(f"{path} has format {version}; this version reads format {FORMAT}.")
            raise JournalRefused(f"{path} is not a journal of Token Relay.")
        for payload in _frames(path, data, whole):
            for record in _decoder.decode(payload):
                state.apply(record)


def _frames(path: Path, data: bytes, whole: bool) -> Iterator[bytes]:
    """The payloads. A torn last frame is normal after a kill or a power cut; damage before it is not."""
    at, end = len(_HEADER), len(data)
    while at < end:
        start = at + _HEAD_BYTES
        torn = start > end or not data[at:].strip(b"\0")  # cut off, or blocks that a power cut left empty
        if not torn:
            length, checksum = _FRAME.unpack_from(data, at)
            (check,) = _CHECK.unpack_from(data, at + _FRAME.size)
            if crc32(data[at : at + _FRAME.size]) != check:
                break
            torn = start + length > end
        if torn and not whole:
            log.warning("%s: the last %d bytes were not written whole and are left out", path.name, end - at)
            return
        if torn or crc32(payload := data[start : start + length]) != checksum:
            break
        yield payload
        at = start + length
    if at < end:
        raise JournalRefused(f"{path} is damaged at byte {at}; restore the data folder, or move this file away.")


def _framed(records: list[Record]) -> bytes:
    payload = _encode(records)
    head = _FRAME.pack(len(payload), crc32(payload))
    return b"%b%b%b" % (head, _CHECK.pack(crc32(head)), payload)


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    chunk: list[Record] = []
    for record in records:
        chunk.append(record)
        if len(chunk) == _SNAPSHOT_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, memoryview(data)[written:])
