from __future__ import annotations

import json
from pathlib import Path

from small_bundle import Buffer, write_small_bundle
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.errors import BundleError


def make_bundle(path: Path, kernel: str = "softmax") -> Path:
    return write_small_bundle(
        path,
        kernel=kernel,
        code_object=b"\x7fELF",
        buffers=[Buffer(address=0x20_0000_0000, before=b"abcd", after=b"abce", pointer_offset=2)],
        grid=(4, 2, 1),
        block=(256, 1, 1),
        arch="gfx942:sramecc+:xnack-",
    )


def invoke(*arguments: object) -> tuple[int, str, BaseException | None]:
    result = CliRunner().invoke(app, ["bundle", *map(str, arguments)])
    return result.exit_code, result.output, result.exception


def test_show_prints_dispatch_and_regions(tmp_path: Path) -> None:
    code, output, _ = invoke("show", make_bundle(tmp_path / "a.aeb"))

    assert code == 0
    assert "  grid         4×2×1 workgroups of 256×1×1\n" in output
    assert "  0       0x2000000000  4      device  changed  0 → 0x2\n" in output


def test_show_as_json_is_the_manifest(tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "a.aeb")

    _, output, _ = invoke("show", "--json", path, path)

    first, second = json.loads(output)["bundles"]
    assert first == second
    assert first["dispatch"]["kernel"] == "softmax"
    assert first["path"] == str(path)


def test_show_lets_no_control_characters_through(tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "a.aeb", kernel="evil\x1b[2J\nname")

    _, output, _ = invoke("show", path)

    assert "\x1b" not in output
    assert "evil\\x1b[2J\\nname" in output


def test_show_of_a_foreign_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.aeb"
    path.write_bytes(b"hello")

    _, _, error = invoke("show", path)

    assert isinstance(error, BundleError)
    assert str(error) == f"{path}: not a bundle"


def test_verify_of_good_and_damaged_files_names_the_damaged(tmp_path: Path) -> None:
    good, damaged = make_bundle(tmp_path / "good.aeb"), make_bundle(tmp_path / "damaged.aeb")
    data = bytearray(damaged.read_bytes())
    data[data.index(b"abce")] ^= 1
    damaged.write_bytes(data)

    code, output, _ = invoke("verify", good, damaged)
    good_code, _, _ = invoke("verify", good)
    _, as_json, _ = invoke("verify", "--json", good, damaged)

    assert (code, good_code) == (1, 0)
    assert output.startswith(f"{good}: ok\ndamaged: {damaged}: entry region-0000.after.zst")
    assert [item["ok"] for item in json.loads(as_json)["bundles"]] == [True, False]
