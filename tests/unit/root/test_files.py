from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from asmevo.errors import UsageError
from asmevo.files import open_whole, read_bounded, write_whole


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


@pytest.mark.parametrize("where", ["folder", "absent/result", "file/result", "n" * 300])
def test_write_whole_where_no_file_can_be_is_a_usage_error(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()

    with pytest.raises(UsageError):
        write_whole(tmp_path / where, b"data")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_open_whole_does_not_follow_a_link_at_its_partial_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    (tmp_path / f"bundle.{os.getpid()}.partial").symlink_to(victim)

    with open_whole(tmp_path / "bundle") as file:
        file.write(b"secret")

    assert victim.read_bytes() == b"kept"
    assert (tmp_path / "bundle").read_bytes() == b"secret"


def test_read_bounded_above_its_limit_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")

    assert read_bounded(tmp_path / "file", 5) == b"12345"
    for path in (tmp_path / "file", Path("/dev/zero"), tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match=re.escape(str(path))):
            read_bounded(path, 4)
