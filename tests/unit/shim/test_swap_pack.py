from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.codeobject import toolchain
from asmevo.errors import UsageError
from asmevo.shim.pack import pack
from asmevo.shim.swap_manifest import read_manifest

SCALE = (Path(__file__).parents[2] / "fixtures" / "scale.s").read_text()


def assemble(text: str, arch: str = "gfx942") -> bytes:
    return toolchain.link(toolchain.assemble(text, arch))


K0 = assemble(SCALE)
BEST = assemble(SCALE.replace("  s_endpgm", "  s_nop 0\n  s_endpgm"))


def make_run(folder: Path, k0: bytes = K0, best: bytes = BEST) -> Path:
    folder.mkdir()
    (folder / "k0.hsaco").write_bytes(k0)
    (folder / "best.hsaco").write_bytes(best)
    summary = {
        "has_improved": best != k0,
        "k0_sha256": hashlib.sha256(k0).hexdigest(),
        "best_sha256": hashlib.sha256(best).hexdigest(),
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def test_run_with_an_improvement_becomes_a_swap_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")

    (entry,) = pack([run], tmp_path / "swap")

    assert read_manifest(tmp_path / "swap") == (entry,)
    assert (tmp_path / "swap" / entry.file_name).read_bytes() == BEST
    assert entry.k0_sha256 == hashlib.sha256(K0).hexdigest()
    assert (entry.k0_size, entry.optimized_size) == (len(K0), len(BEST))
    assert entry.arch == "gfx942"


def test_run_without_an_improvement_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", best=K0)

    with pytest.raises(UsageError, match="no improvement"):
        pack([run], tmp_path / "swap")

    assert not (tmp_path / "swap").exists()


def other_chip(run: Path) -> None:
    text = SCALE.replace("gfx942", "gfx950")
    best = assemble(text, "gfx950")
    (run / "best.hsaco").write_bytes(best)
    summary = json.loads((run / "summary.json").read_text())
    summary["best_sha256"] = hashlib.sha256(best).hexdigest()
    (run / "summary.json").write_text(json.dumps(summary))


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "summary.json").unlink(),
        lambda run: (run / "summary.json").write_text("{"),
        lambda run: (run / "summary.json").write_text("[]"),
        lambda run: (run / "best.hsaco").unlink(),
        lambda run: (run / "best.hsaco").write_bytes(BEST[:-1]),
        lambda run: (run / "k0.hsaco").write_bytes(b""),
        other_chip,
    ],
    ids=["no summary", "cut summary", "odd summary", "no best", "cut best", "empty k0", "chip"],
)
def test_run_that_is_damaged_is_refused(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    run = make_run(tmp_path / "run")
    damage(run)

    with pytest.raises(UsageError):
        pack([run], tmp_path / "swap")

    assert not (tmp_path / "swap").exists()


def test_two_runs_of_one_code_object_are_refused(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]

    with pytest.raises(UsageError, match="same code object"):
        pack(runs, tmp_path / "swap")


def test_pack_command_does_not_replace_a_folder_unasked(tmp_path: Path) -> None:
    run, swap = make_run(tmp_path / "run"), tmp_path / "swap"
    runner = CliRunner()

    first = runner.invoke(app, ["swap", "pack", str(run), "-o", str(swap)])
    second = runner.invoke(app, ["swap", "pack", str(run), "-o", str(swap)])
    forced = runner.invoke(app, ["swap", "pack", str(run), "-o", str(swap), "--force"])

    assert (first.exit_code, forced.exit_code) == (0, 0)
    assert first.output.splitlines()[-1] == f"Wrote {swap / 'manifest.txt'}"
    assert isinstance(second.exception, UsageError)


def test_status_command_of_a_folder_nobody_used_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["swap", "status", str(tmp_path)])

    assert result.exit_code == 0
    assert "No program ran" in result.output
