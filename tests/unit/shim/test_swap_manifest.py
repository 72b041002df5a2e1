from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from asmevo.errors import UsageError
from asmevo.shim.launch import exec_with_shim, shim_environment
from asmevo.shim.swap_log import EventKind, read_folder, read_log
from asmevo.shim.swap_manifest import SwapEntry, read_manifest, write_manifest

ENTRY = SwapEntry(
    k0_sha256="ab" * 32,
    k0_size=100,
    optimized_sha256="cd" * 32,
    optimized_size=200,
    arch="gfx942",
    file_name="cd.hsaco",
)


def test_manifest_written_and_read_is_the_same(tmp_path: Path) -> None:
    entries = (ENTRY, replace(ENTRY, k0_sha256="ef" * 32))

    write_manifest(tmp_path, entries)

    assert read_manifest(tmp_path) == entries


@pytest.mark.parametrize(
    "entries",
    [
        (ENTRY, ENTRY),
        (replace(ENTRY, file_name="../x"),),
        (replace(ENTRY, file_name=".x"),),
        (replace(ENTRY, k0_size=0),),
        (replace(ENTRY, k0_sha256="AB" * 32),),
        (replace(ENTRY, arch="gfx942 x"),),
    ],
)
def test_manifest_no_reader_would_accept_is_not_written(
    tmp_path: Path, entries: tuple[SwapEntry, ...]
) -> None:
    with pytest.raises(UsageError):
        write_manifest(tmp_path, entries)

    assert not (tmp_path / "manifest.txt").exists()


@pytest.mark.parametrize("text", ["", "asmevo-swap 1", "asmevo-swap 2\n", "asmevo-swap 1\nx\n"])
def test_manifest_that_is_damaged_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.txt").write_text(text)

    with pytest.raises(UsageError):
        read_manifest(tmp_path)


def test_environment_keeps_what_is_preloaded_already(tmp_path: Path) -> None:
    changed = shim_environment(tmp_path, {"LD_PRELOAD": "a.so:b.so", "X": "1"})

    first, *others = changed["LD_PRELOAD"].split(":")
    assert first.endswith("libasmevo_shim.so")
    assert others == ["a.so", "b.so"]
    assert changed["X"] == "1"
    assert changed["ASMEVO_SWAP_DIR"] == str(tmp_path)


def test_run_without_folder_or_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        exec_with_shim(tmp_path / "none", ["true"])
    with pytest.raises(UsageError, match="was not found"):
        exec_with_shim(tmp_path, ["no-such-program-here"])


def test_log_with_foreign_lines_gives_the_events(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_bytes(
        b"2026-01-01T00:00:00.000Z 7 active: 1 code objects to swap in /lib/libamdhip64.so\n"
        b"\xff garbage\n"
        b"2026-01-01T00:00:01.000Z 7 swapped " + b"ab" * 32 + b" -> best.hsaco\n"
        b"2026-01-01T00:00:02.000Z 7 kept " + b"ab" * 32 + b": best.hsaco: No such file\n"
    )

    events = read_log(log)

    assert [event.kind for event in events] == [
        EventKind.ACTIVE,
        EventKind.SWAPPED,
        EventKind.KEPT,
    ]
    assert [event.detail for event in events[1:]] == ["best.hsaco", "best.hsaco: No such file"]
    assert events[1].k0_sha256 == "ab" * 32


def test_run_with_a_log_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        exec_with_shim(tmp_path, ["true"], log=tmp_path / "none" / "log")


def test_read_folder_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        read_folder(tmp_path / "none")

    assert read_folder(tmp_path) == ()
