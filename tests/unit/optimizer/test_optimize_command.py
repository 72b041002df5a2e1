from __future__ import annotations

from pathlib import Path

import pytest
from small_bundle import Buffer, write_small_bundle
from small_kernels import FakeReplayer, build_kernel
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.errors import AsmevoError
from asmevo.optimizer.run import optimize, read_bundles
from asmevo.optimizer.search import Budget
from asmevo.replay.device import Device

BODY = "v_mov_b32 v1, v2\ns_nop 3\nv_mov_b32 v3, v1\nglobal_store_dword v[10:11], v3, off\n"


def bundle_of(path: Path, code_object: bytes) -> Path:
    return write_small_bundle(
        path,
        kernel="work",
        code_object=code_object,
        buffers=[Buffer(address=0x7D0000000000, before=bytes(4096))],
        scalars=bytes(8),
    )


def run_command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["optimize", *map(str, arguments)])
    if isinstance(result.exception, AsmevoError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def test_optimize_with_fake_replay_gives_a_summary(tmp_path: Path) -> None:
    data = build_kernel(BODY)
    bundles = read_bundles([bundle_of(tmp_path / "one.aeb", data)])

    summary = optimize(
        bundles,
        tmp_path / "run",
        device=Device.parse("emulated"),
        budget=Budget(),
        make_replayer=lambda path: FakeReplayer(data),
    )

    assert summary["has_improved"]
    assert summary["cost_unit"] == "modelled cycles"
    assert summary["k0_modelled_cycles"] > summary["best_modelled_cycles"]
    assert summary["committed"] == ["W6"]
    assert (tmp_path / "run" / "summary.json").exists()


def test_optimize_releases_only_what_passes_on_held_out_bundles(tmp_path: Path) -> None:
    data = build_kernel(BODY)
    bundles = read_bundles([bundle_of(tmp_path / "one.aeb", data)])
    unseen = bundle_of(tmp_path / "unseen.aeb", data)

    def open_replayer(path: Path) -> FakeReplayer:
        return FakeReplayer(data, is_equal=lambda one: path != unseen or one == data)

    summary = optimize(
        bundles,
        tmp_path / "run",
        device=Device.parse("emulated"),
        budget=Budget(),
        held_out=[unseen],
        make_replayer=open_replayer,
    )

    assert summary["committed"] == ["W6"]
    assert not summary["has_improved"]
    (rejected,) = summary["held_out"]["rejected"]
    assert (rejected["bundle"], rejected["status"]) == (str(unseen), "divergent")
    assert (tmp_path / "run" / "best.hsaco").read_bytes() == data


def test_optimize_with_held_out_bundle_that_passes_releases_the_best(tmp_path: Path) -> None:
    data = build_kernel(BODY)
    bundles = read_bundles([bundle_of(tmp_path / "one.aeb", data)])
    unseen = bundle_of(tmp_path / "unseen.aeb", data)

    summary = optimize(
        bundles,
        tmp_path / "run",
        device=Device.parse("emulated"),
        budget=Budget(),
        held_out=[unseen],
        make_replayer=lambda path: FakeReplayer(data),
    )

    assert summary["has_improved"]
    assert summary["held_out"] == {"bundles": [str(unseen)], "rejected": []}


def test_optimize_with_held_out_bundle_of_another_kernel_is_a_usage_error(tmp_path: Path) -> None:
    first = bundle_of(tmp_path / "one.aeb", build_kernel(BODY))
    other = bundle_of(tmp_path / "two.aeb", build_kernel("s_nop 0\n" + BODY))

    code, output = run_command(first, "--held-out", other, "-o", tmp_path / "run")

    assert code == 2
    assert "different code objects" in output


def test_optimize_of_different_code_objects_is_a_usage_error(tmp_path: Path) -> None:
    first = bundle_of(tmp_path / "one.aeb", build_kernel(BODY))
    second = bundle_of(tmp_path / "two.aeb", build_kernel("s_nop 0\n" + BODY))

    code, output = run_command(first, second, "-o", tmp_path / "run")

    assert code == 2
    assert "different code objects" in output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [None, b"", b"no bundle"])
def test_optimize_of_what_is_no_bundle_is_a_usage_error(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "one.aeb"
    if content is not None:
        path.write_bytes(content)

    code, output = run_command(path, "-o", tmp_path / "run")

    assert code == 2
    assert "one.aeb" in output


@pytest.mark.parametrize("duration", ["0", "5x", "-1s", "", "1e9s"])
def test_optimize_for_no_duration_is_a_usage_error(tmp_path: Path, duration: str) -> None:
    code, output = run_command(tmp_path / "one.aeb", "-o", tmp_path / "run", "--for", duration)

    assert code == 2
    assert "duration" in output
