from __future__ import annotations

from pathlib import Path

import pytest

from asmevo.errors import MissingToolError
from asmevo.shim import launch


def test_environment_keeps_what_is_preloaded_already(tmp_path: Path) -> None:
    changed = launch.shim_environment(tmp_path, {"LD_PRELOAD": "/a.so:/b.so", "X": "1"})

    first, *rest = changed["LD_PRELOAD"].split(":")
    assert Path(first).name == "libasmevo_shim.so"
    assert rest == ["/a.so", "/b.so"]
    assert changed["X"] == "1"


@pytest.mark.parametrize("folder", ["with blank", "with:colon"])
def test_environment_where_ld_preload_cannot_name_the_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    library = tmp_path / folder / "libasmevo_shim.so"
    monkeypatch.setattr(launch, "shim_library", lambda: library)

    with pytest.raises(MissingToolError, match="LD_PRELOAD cannot name"):
        launch.shim_environment(tmp_path, {})
