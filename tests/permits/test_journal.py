"""The journal's files: what is written comes back; what was torn is left out; what is damaged or foreign is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from relay.permits.engine.base import Ask, End, Lease
from relay.permits.engine.journal import Clock, Fence, Journal, JournalRefused, Record, Recovered, Renewal


def grant(number: int, token: int | None = None) -> Lease:
    ask = Ask("search", 2, "batch", 1_000_000, 60_000_000, "worker", {"job": [1, "x"]}, "key")
    return Lease(f"lease-{number}", "gpu", ask, token or number, 5, 1000 + number, 60_001_000 + number, 60_000_000)


def write(folder: Path, *frames: list[Record]) -> Path:
    """A folder with one snapshot and these frames after it; the segment's path."""
    journal = Journal(folder)
    journal.recover()
    journal.start_segment()
    journal.write_snapshot([Fence("gpu", 7)])
    for frame in frames:
        journal.write(frame)
    journal.close()
    return folder / "journal-000001"


def read(folder: Path) -> Recovered:
    return Journal(folder).recover()


def test_an_empty_folder_tells_nothing(tmp_path: Path) -> None:
    state = read(tmp_path / "engine")
    assert (state.leases, state.fences, state.now_us, state.empty) == ({}, {}, 0, True)


def test_leases_ends_fences_and_the_clock_come_back(tmp_path: Path) -> None:
    write(
        tmp_path,
        [grant(1), grant(2, token=9)],
        [Renewal("lease-2", 30_000_000, 90_000_000), End("lease-1", "gpu", "search", "released", 5000)],
        [Clock(9000)],
    )
    state = read(tmp_path)
    assert list(state.leases) == ["lease-2"]
    lease = state.leases["lease-2"]
    assert (lease.ask.tenant, lease.ask.permits, lease.ask.metadata) == ("search", 2, {"job": [1, "x"]})
    assert (lease.ttl_us, lease.fencing_token, lease.ask.key) == (30_000_000, 9, "key")
    assert state.ends["lease-1"].reason == "released"
    assert state.fences == {"gpu": 9}
    assert state.now_us == 9000
    assert not state.empty


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_frame_is_left_out(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, [grant(1)], [grant(2)])
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(read(tmp_path).leases) == ["lease-1"]


def test_zeros_after_a_power_cut_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, [grant(1)])
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert list(read(tmp_path).leases) == ["lease-1"]


def test_damage_before_the_end_is_refused_by_name_and_place(tmp_path: Path) -> None:
    path = write(tmp_path, [grant(1)], [grant(2)])
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(JournalRefused, match=r"journal-000001 is damaged at byte 24"):
        read(tmp_path)


@pytest.mark.parametrize("byte", range(24, 36))
def test_a_flipped_bit_in_a_frames_head_is_damage_and_not_a_torn_end(tmp_path: Path, byte: int) -> None:
    path = write(tmp_path, [grant(1)], [grant(2)], [grant(3)])
    data = bytearray(path.read_bytes())
    data[byte] ^= 0x40
    path.write_bytes(bytes(data))
    with pytest.raises(JournalRefused, match="damaged at byte 24"):
        read(tmp_path)


def test_a_segment_that_is_missing_or_emptied_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [grant(1)])
    journal = Journal(tmp_path)
    journal.recover()
    journal.start_segment()
    journal.close()
    path.write_bytes(b"")
    with pytest.raises(JournalRefused, match="journal-000001"):
        read(tmp_path)
    path.unlink()
    with pytest.raises(JournalRefused, match="journal-000001 is missing"):
        read(tmp_path)
    (tmp_path / "journal-000002").unlink()
    with pytest.raises(JournalRefused, match="journal-000001 is missing"):
        read(tmp_path)


def test_files_of_other_names_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, [grant(1)])
    (tmp_path / "journal-²").write_bytes(b"x")
    assert list(read(tmp_path).leases) == ["lease-1"]


def test_an_unknown_format_is_refused_in_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, [grant(1)])
    path.write_bytes(path.read_bytes().replace(b"journal 001", b"journal 002", 1))
    with pytest.raises(JournalRefused, match=r"^[^\n]*has format 2; this version reads format 1\.$"):
        read(tmp_path)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path).write_bytes(b"something else altogether, longer than a header")
    with pytest.raises(JournalRefused, match="not a journal"):
        read(tmp_path)


def test_a_snapshot_replaces_what_is_older(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.recover()
    for number in (1, 2, 3):
        journal.start_segment()
        journal.write_snapshot([grant(number)])
        journal.write([grant(number + 10)])
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal-000003", "snapshot-000003"]
    assert sorted(read(tmp_path).leases) == ["lease-13", "lease-3"]


def test_a_segment_whose_snapshot_was_never_finished_is_read_after_the_older_ones(tmp_path: Path) -> None:
    write(tmp_path, [grant(1)], [grant(2)])
    journal = Journal(tmp_path)
    journal.recover()
    journal.start_segment()
    journal.write([End("lease-1", "gpu", "search", "released", 1)])
    journal.close()
    (tmp_path / "snapshot-000002.part").write_bytes(b"half")
    assert list(read(tmp_path).leases) == ["lease-2"]


def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    path = write(tmp_path / "engine")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


class OldAsk(Struct, array_like=True):
    """An Ask as it was written before there were rates."""

    tenant: str
    permits: int
    priority: str
    timeout_us: int
    ttl_us: int
    holder: str
    metadata: dict[str, Any]
    key: str | None


class OldLease(Struct, array_like=True, tag=1):
    """A Lease of that time."""

    lease_id: str
    pool: str
    ask: OldAsk
    fencing_token: int
    waited_us: int
    acquired_us: int
    expires_us: int
    ttl_us: int
    delivered: bool
    drop_us: int | None
    acquired_at_us: int


def test_a_journal_from_before_asks_had_tokens_is_read(tmp_path: Path) -> None:
    ask = OldAsk("search", 2, "batch", 1_000_000, 60_000_000, "worker", {"job": 1}, "key")
    old: Any = OldLease("lease-1", "gpu", ask, 7, 5, 1001, 60_001_001, 60_000_000, True, None, 99)
    write(tmp_path, [old])
    lease = read(tmp_path).leases["lease-1"]
    assert lease.ask == Ask("search", 2, "batch", 1_000_000, 60_000_000, "worker", {"job": 1}, "key", 0)
    assert (lease.fencing_token, lease.delivered, lease.acquired_at_us) == (7, True, 99)


def test_the_tokens_of_an_ask_come_back(tmp_path: Path) -> None:
    lease = grant(1)
    lease.ask = structs.replace(lease.ask, tokens=4000)
    write(tmp_path, [lease])
    assert read(tmp_path).leases["lease-1"].ask.tokens == 4000
