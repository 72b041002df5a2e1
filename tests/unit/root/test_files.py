from __future__ import annotations

import stat
from pathlib import Path

import pytest

from asmevo.files import open_whole, write_whole


def test_open_whole_when_block_fails_leaves_old_file_and_no_partial(tmp_path: Path) -> None:
    path = tmp_path / "result.bin"
    path.write_bytes(b"old")

    with pytest.raises(RuntimeError), open_whole(path) as file:
        file.write(b"half")
        raise RuntimeError

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_open_whole_by_default_is_private(tmp_path: Path) -> None:
    path = tmp_path / "bundle"

    with open_whole(path) as file:
        file.write(b"secret")
        assert not path.exists()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_write_whole_replaces_content(tmp_path: Path) -> None:
    path = tmp_path / "text"
    write_whole(path, b"first, longer")

    write_whole(path, b"second")

    assert path.read_bytes() == b"second"
