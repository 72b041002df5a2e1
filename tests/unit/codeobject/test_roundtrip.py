"""The round trip says exact only for what is given back, and survives what it is given."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_containers import GFX942, HOST, compress_bundle, make_bundle
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.codeobject import roundtrip, time_limit
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import FoundObject
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import find_arch
from asmevo.codeobject.rebuild import rebuild as rebuild_text
from asmevo.codeobject.recover import recover
from asmevo.codeobject.roundtrip import MASKED, RoundTrip, check, target_of
from asmevo.codeobject.roundtrip_run import run
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import UsageError


class Seen:
    """Keeps what the run tells."""

    def __init__(self) -> None:
        self.results: list[RoundTrip] = []
        self.files = 0

    def done(self, result: RoundTrip) -> None:
        self.results.append(result)

    def file_read(self, count: int) -> None:
        self.files = count


def found_object(data: bytes) -> FoundObject:
    return FoundObject(path=Path("kernel.co"), place="", data=data)


def fake_checker(found: FoundObject) -> RoundTrip:
    """Stands in for `check`: dies of some objects."""
    if found.path.name.startswith("deadly"):
        os._exit(9)
    return RoundTrip(path=str(found.path), place="", target="gfx942", instructions=1)


def recover_otherwise(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    """Let recovery end with another text than it should."""

    def recover_changed(data: bytes) -> Listing:
        listing = recover(data)
        text = change(listing.to_assembly())
        return dataclasses.replace(
            listing, base=CodeObject.read(rebuild_text(text, find_arch(text)))
        )

    monkeypatch.setattr(roundtrip, "recover", recover_changed)


@pytest.mark.parametrize("name", ["scale", "two_kernels", "preload"])
def test_check_of_a_fixture_is_exact_and_counts(build_object: Any, name: str) -> None:
    data = build_object(name)
    result = check(found_object(data))

    assert result.is_exact, result.line
    assert result.has_same_image
    assert result.target == target_of(data) == "gfx942"
    assert result.kernels == len(CodeObject.read(data).kernels)
    assert result.instructions > 0


def test_check_counts_words_that_stay_bytes(build_object: Any) -> None:
    data = bytearray(build_object("scale"))
    text = CodeObject.read(bytes(data)).text
    # The last instruction goes, a word that nothing decodes stands there.
    data[text.offset + text.size - 4 : text.offset + text.size] = b"\xff\xff\xff\xff"

    result = check(found_object(bytes(data)))

    assert result.is_exact, result.line
    assert (result.kept_as_bytes, result.zero_words) == (1, 0)


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        (lambda text: text.replace("s_endpgm", "s_nop 0\n\ts_endpgm", 1), ".text"),
        (lambda text: text.replace(".amdhsa_next_free_vgpr ", ".amdhsa_next_free_vgpr 9"), "desc"),
        (lambda text: text.replace(".max_flat_workgroup_size: ", "&0"), "metadata"),
        (lambda text: text + '\t.section .more,"a"\n\t.long 1\n', "section"),
        (lambda text: text + "\t.globl extra\n\t.set extra, 7\n", "symbol"),
        (lambda text: text + '\t.section .note.more,"a",@note\n\t.long 0, 0, 1\n', "section"),
        (lambda text: text + "\t.text\nextra:\n", ""),
    ],
)
def test_check_of_text_that_means_something_else_names_the_part(
    build_object: Any, monkeypatch: pytest.MonkeyPatch, change: Any, trouble: str
) -> None:
    def change_text(text: str) -> str:
        changed = str(change(text)).replace("&0", ".max_flat_workgroup_size: 1")
        assert changed != text
        return changed

    recover_otherwise(monkeypatch, change_text)
    result = check(found_object(build_object("scale")))

    assert result.trouble.startswith(trouble)
    assert result.is_exact == (not trouble)
    assert "\n" not in result.line


def test_check_of_a_section_that_becomes_writable_is_a_section_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = Path(__file__).parents[2] / "fixtures" / "scale.s"
    source = fixture.read_text() + '\t.section .table,"a"\n\t.long 1, 2\n'
    data = link(assemble(source, "gfx942"))
    assert check(found_object(data)).is_exact

    recover_otherwise(monkeypatch, lambda text: text.replace('.table,"a"', '.table,"aw"'))
    result = check(found_object(data))

    assert result.trouble == "section"
    assert ".table" in result.line


def test_check_of_a_section_with_merge_flags_is_exact() -> None:
    fixture = Path(__file__).parents[2] / "fixtures" / "scale.s"
    source = fixture.read_text() + '\t.section .table,"aMS",@progbits,1\n\t.asciz "text"\n'
    data = link(assemble(source, "gfx942"))
    assert CodeObject.read(data).section(".table").flags != 2  # type: ignore[union-attr]

    assert check(found_object(data)).is_exact


def test_check_of_two_sections_of_one_name_is_not_called_exact(build_object: Any) -> None:
    source = '\t.section .table,"a"\n\t.long 1\n\t.section .other,"a"\n\t.long 2\n'
    fixture = Path(__file__).parents[2] / "fixtures" / "scale.s"
    data = bytearray(link(assemble(fixture.read_text() + source, "gfx942")))
    names = [one.name for one in CodeObject.read(bytes(data)).sections]
    table = int.from_bytes(data[40:48], "little")
    first, second = (table + 64 * names.index(name) for name in (".table", ".other"))
    data[second : second + 4] = data[first : first + 4]

    assert not check(found_object(bytes(data))).is_exact


def test_check_of_other_flags_is_a_header_difference(
    build_object: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover_changed(data: bytes) -> Listing:
        listing = recover(data)
        changed = bytearray(listing.base.data)
        changed[51] ^= 0x80
        return dataclasses.replace(listing, base=CodeObject.read(bytes(changed)))

    monkeypatch.setattr(roundtrip, "recover", recover_changed)

    assert check(found_object(build_object("scale"))).trouble == "header"


def test_check_of_a_lost_static_symbol_is_a_symbol_difference(
    monkeypatch: pytest.MonkeyPatch, build_object: Any
) -> None:
    fixture = Path(__file__).parents[2] / "fixtures" / "scale.s"
    source = fixture.read_text().replace("s_endpgm", "label_0001:\n\ts_endpgm", 1)
    data = link(assemble(source, "gfx942"))
    assert check(found_object(data)).is_exact

    recover_otherwise(monkeypatch, lambda text: text.replace("label_0001", "other"))
    result = check(found_object(data))

    assert result.trouble == "symbol"
    assert "label_0001" in result.line


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), bytes(99)])
def test_check_of_junk_is_one_line(data: bytes) -> None:
    result = check(found_object(data))

    assert result.trouble == "unreadable"
    assert "\n" not in result.line


def test_check_of_fuzzed_objects_always_answers(build_object: Any) -> None:
    data = build_object("two_kernels")
    for at in range(16, len(data), 331):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        result = check(found_object(bytes(damaged)))

        assert result.trouble != "failed", (at, result.line)


def test_check_that_runs_out_of_memory_is_one_line(
    build_object: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(data: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(roundtrip, "recover", exhaust)

    assert check(found_object(build_object("scale"))).trouble == "failed"


def test_check_that_takes_too_long_is_ended(
    build_object: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(data: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr(roundtrip, "recover", hang)
    monkeypatch.setattr(time_limit, "_OBJECT_SECONDS", 0.2)
    result = check(found_object(build_object("scale")))

    assert result.trouble == "failed"
    assert "took longer" in result.line


def test_run_with_a_worker_that_dies_loses_one_object(tmp_path: Path, build_object: Any) -> None:
    for name in ("a.co", "deadly.co", "z.co"):
        (tmp_path / name).write_bytes(build_object("scale"))
    (tmp_path / "damaged.co").write_bytes(b"?")
    seen = Seen()

    totals = run(sorted(tmp_path.iterdir()), seen, jobs=2, checker=fake_checker)

    assert (totals.objects, totals.exact) == (3, 2)
    assert totals.troubles == {"failed": 1, "container": 1}
    bad = sorted(Path(one.path).name for one in seen.results if one.trouble)
    assert bad == ["damaged.co", "deadly.co"]
    assert seen.files == 4


def test_masked_fields_have_a_name_and_a_reason() -> None:
    assert all(len(entry) == 2 and all(entry) for entry in MASKED)


def test_result_in_json_has_every_field() -> None:
    result = RoundTrip(path="a", place="", target="gfx942")

    names = {one.name for one in dataclasses.fields(RoundTrip)} | {"is_exact"}
    assert set(json.loads(json.dumps(result.to_json()))) == names


def test_command_over_a_folder_reports_and_writes_every_object(
    tmp_path: Path, build_object: Any
) -> None:
    folder, output = tmp_path / "cache", tmp_path / "results.jsonl"
    folder.mkdir()
    scale = build_object("scale")
    foreign = bytearray(scale)
    foreign[48] = 0x41
    entries = [(HOST, b""), (GFX942, scale), (GFX942.replace("942", "1100"), bytes(foreign))]
    (folder / "fat.hipfb").write_bytes(compress_bundle(make_bundle(entries), 3, "zstd"))
    (folder / "cut.co").write_bytes(scale[:-8])

    result = CliRunner().invoke(app, ["roundtrip", str(folder), "-o", str(output), "--json"])

    facts = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (facts["objects"], facts["exact"], facts["same_image"]) == (2, 1, 1)
    assert facts["skipped"] == {"gfx1100": 1}
    assert [one["trouble"] for one in facts["failures"]] == ["unreadable"]
    assert facts["raw_descriptors"] == facts["raw_notes"] == facts["kept_as_bytes"] == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(one["is_exact"] for one in lines) == [False, True]


def test_command_names_a_failing_file_and_ends_with_1(tmp_path: Path, build_object: Any) -> None:
    good, bad = tmp_path / "good.co", tmp_path / "bad.co"
    good.write_bytes(build_object("scale"))
    bad.write_bytes(b"no code object")

    passed = CliRunner().invoke(app, ["roundtrip", str(good), "--jobs", "1"])
    failed = CliRunner().invoke(app, ["roundtrip", str(bad)])

    assert passed.exit_code == 0, passed.output
    assert "1 exact, 1 of them with an identical loaded image" in passed.output
    assert failed.exit_code == 1
    assert failed.output.startswith(f"{bad}: container: neither")


def test_command_without_anything_to_check_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["roundtrip", str(tmp_path)])

    assert "no code object for gfx90a" in str(result.exception)


def test_run_checks_objects_of_the_same_contents_once(tmp_path: Path, build_object: Any) -> None:
    for number in range(4):
        (tmp_path / f"{number}.co").write_bytes(build_object("scale"))
    seen = Seen()

    totals = run(sorted(tmp_path.iterdir()), seen, jobs=1)

    # The first ones may be under way together.
    assert totals.objects == totals.exact == 4
    assert totals.taken_over >= 1
    assert sorted(one.path for one in seen.results) == [
        str(tmp_path / f"{number}.co") for number in range(4)
    ]


def test_command_that_resumes_keeps_what_is_exact_and_checks_the_rest(
    tmp_path: Path, build_object: Any
) -> None:
    good, bad = tmp_path / "good.co", tmp_path / "bad.co"
    good.write_bytes(build_object("scale"))
    bad.write_bytes(b"\x7fELF")
    results = tmp_path / "results.jsonl"
    command = ["roundtrip", str(good), str(bad), "-o", str(results), "-j", "1"]
    assert CliRunner().invoke(app, command).exit_code == 1
    before = results.read_text()
    # The run was ended in the middle of a line, and the bad file is a good one now.
    results.write_text(before + before[:40])
    bad.write_bytes(build_object("two_kernels"))

    resumed = CliRunner().invoke(app, [*command, "--resume"])

    assert resumed.exit_code == 0, resumed.output
    assert "2 exact" in resumed.output
    assert "of the same contents: 1 object" in resumed.output
    added = results.read_text().removeprefix(before).splitlines()
    assert [json.loads(one)["path"] for one in added] == [str(bad)]


@pytest.mark.parametrize("text", ["{}\n", "[1]\n", "no\n"])
def test_command_that_resumes_foreign_results_is_a_usage_error(
    tmp_path: Path, build_object: Any, text: str
) -> None:
    (tmp_path / "good.co").write_bytes(build_object("scale"))
    results = tmp_path / "results.jsonl"
    results.write_text(text)

    resumed = CliRunner().invoke(
        app, ["roundtrip", str(tmp_path / "good.co"), "-o", str(results), "--resume"]
    )

    assert isinstance(resumed.exception, UsageError)
    assert results.read_text() == text
