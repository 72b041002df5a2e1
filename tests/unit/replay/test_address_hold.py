"""The library that reserves addresses before a worker's own code runs."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asmevo.replay.address_hold import (
    AddressTakenError,
    find_holder,
    hold_environment,
    map_at,
    unmap,
    write_ranges,
)
from asmevo.replay.layout import Mapping, Memory

_ADDRESS, _SIZE = 0x7D0000000000, 1 << 30
_PROBE = "import sys; sys.stdout.write(open('/proc/self/maps').read())"
# Takes a page, in its constructor, in as many of a process's lives as a file has bytes.
_SQUATTER = """
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
__attribute__((constructor)) static void squat(void) {
    struct stat state;
    if (stat(getenv("SQUAT_COUNT"), &state) != 0 || state.st_size == 0) return;
    truncate(getenv("SQUAT_COUNT"), state.st_size - 1);
    mmap((void*)(uintptr_t)0x7d0000000000, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
"""


def _mapping(memory: Memory, offset: int = 0) -> Mapping:
    return Mapping(address=_ADDRESS + offset, size_bytes=_SIZE, memory=memory, regions=())


def _run(*mappings: Mapping, **environment: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """A Python under the hold: what it printed, and the messages about it."""
    ranges = write_ranges(mappings)
    read_end, write_end = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=hold_environment(os.environ | environment, ranges, write_end),
            pass_fds=(ranges, write_end),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(write_end)
        return done, os.read(read_end, 4096).decode()
    finally:
        os.close(ranges)
        os.close(read_end)


def _squatter(folder: Path, lives: int) -> dict[str, str]:
    source, library, count = folder / "squat.c", folder / "squat.so", folder / "count"
    source.write_text(_SQUATTER)
    count.write_bytes(bytes(lives))
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    return {"LD_PRELOAD": str(library), "SQUAT_COUNT": str(count)}


def test_hold_reserves_ranges_before_the_program_runs() -> None:
    done, messages = _run(_mapping(Memory.DEVICE), _mapping(Memory.PINNED, 4 * _SIZE))

    assert done.returncode == 0, done.stderr
    assert messages == ""
    lines = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert lines[f"{_ADDRESS:x}-{_ADDRESS + _SIZE:x}"] == "---p"
    pinned = _ADDRESS + 4 * _SIZE
    assert lines[f"{pinned:x}-{pinned + _SIZE:x}"] == "rw-p"


def test_hold_with_range_taken_in_some_lives_starts_the_program_again(tmp_path: Path) -> None:
    environment = _squatter(tmp_path, lives=3)

    done, messages = _run(_mapping(Memory.DEVICE), **environment)

    assert done.returncode == 0, done.stderr
    assert messages == ""
    assert f"{_ADDRESS:x}-{_ADDRESS + _SIZE:x} ---p" in done.stdout
    assert (tmp_path / "count").read_bytes() == b""


def test_hold_with_range_taken_in_every_life_names_the_holder(tmp_path: Path) -> None:
    environment = _squatter(tmp_path, lives=1000)

    done, messages = _run(_mapping(Memory.DEVICE), **environment)

    assert done.returncode == 75
    assert done.stdout == ""
    message = json.loads(messages)
    assert message["event"] == "address_taken"
    assert f"0x{_ADDRESS:x} ({_SIZE} bytes) is taken by {_ADDRESS:x}-" in message["message"]
    assert "[anonymous]" in message["message"]
    assert 1000 - len((tmp_path / "count").read_bytes()) == 32


def test_hold_of_address_that_nothing_can_have_says_why() -> None:
    impossible = Mapping(address=1 << 63, size_bytes=4096, memory=Memory.DEVICE, regions=())

    done, messages = _run(impossible)

    assert done.returncode == 75
    assert "no mapping of this process" in json.loads(messages)["message"]


@pytest.mark.parametrize("value", ["", "7", "x y z"])
def test_hold_with_damaged_request_ends_the_program(value: str) -> None:
    environment = hold_environment(os.environ, 0, 1) | {"ASMEVO_REPLAY_HOLD": value}

    done = subprocess.run(
        [sys.executable, "-c", "pass"], env=environment, capture_output=True, check=False
    )

    assert done.returncode == 70
    assert b"damaged" in done.stderr


def test_map_at_taken_address_names_the_holder_and_leaves_it_alone() -> None:
    map_at(_ADDRESS, mmap.PAGESIZE, accessible=True)
    try:
        ctypes.memset(_ADDRESS, 7, 4)

        with pytest.raises(AddressTakenError, match=f"0x{_ADDRESS:x} .* is taken by "):
            map_at(_ADDRESS, mmap.PAGESIZE, accessible=True)

        assert ctypes.string_at(_ADDRESS, 5) == b"\x07\x07\x07\x07\x00"
    finally:
        unmap(_ADDRESS, mmap.PAGESIZE)


def test_worker_without_the_hold_says_so_and_ends() -> None:
    results, results_end = os.pipe()
    life_end, life = os.pipe()
    command = [sys.executable, "-m", "asmevo.replay.worker", str(results_end), str(life_end)]

    done = subprocess.run(
        command,
        env=os.environ | {"ASMEVO_REPLAY_HOLD": "3 4 0"},
        pass_fds=(results_end, life_end),
        check=False,
    )

    message = json.loads(os.read(results, 4096))
    for descriptor in (results, results_end, life_end, life):
        os.close(descriptor)
    assert done.returncode == 1
    assert (message["event"], message["kind"]) == ("error", "MissingToolError")
    assert "was not loaded" in message["message"]


def test_holder_of_unmapped_range_is_nothing() -> None:
    assert find_holder(mmap.PAGESIZE, mmap.PAGESIZE) == "no mapping of this process"
