"""The interposer inside a process that loads code objects through the stub library."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from asmevo.shim.launch import shim_environment
from asmevo.shim.swap_log import Event, EventKind, read_logs
from asmevo.shim.swap_manifest import SwapEntry, write_manifest

# Loads the images named on the command line and prints a marker out of each loaded one's header.
PROGRAM = """
import ctypes, json, os, sys
function, name, *images = sys.argv[1:]
library = ctypes.CDLL(name)
library.stub_loaded.restype = ctypes.POINTER(ctypes.c_char)
module = ctypes.c_void_p()
results = []
for image in images:
    data = open(image, "rb").read()
    if function == "hipModuleLoad":
        results.append(library.hipModuleLoad(ctypes.byref(module), image.encode()))
    elif function == "hipModuleLoadData":
        results.append(library.hipModuleLoadData(ctypes.byref(module), data))
    else:
        results.append(library.hipModuleLoadDataEx(ctypes.byref(module), data, 0, None, None))
library.stub_loads.restype = ctypes.c_uint64
markers = [library.stub_loaded(i)[:64][9:16].decode() for i in range(library.stub_loads())]
print(json.dumps([results, markers, library.hipGetLastError()]))
"""


def make_image(marker: bytes, *, size: int = 4096, flags: int = 0x54C, machine: int = 224) -> bytes:
    """Header of an AMDGPU ELF whose section headers end the file; the marker fills e_ident."""
    ident = b"\x7fELF\x02\x01\x01\x40\x03" + marker.ljust(7, b"-")
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident, 3, machine, 1, 0, 0, size - 128, flags, 64, 0, 0, 64, 2, 1
    )
    return header + bytes(range(256)) * ((size - 64) // 256) + bytes((size - 64) % 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    folder: Path
    k0: Path
    optimized: Path
    other: Path


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    folder = tmp_path / "swap"
    folder.mkdir()
    k0, optimized, other = make_image(b"K0"), make_image(b"BEST"), make_image(b"OTHER")
    paths = Setup(
        folder=folder,
        k0=tmp_path / "k0.hsaco",
        optimized=folder / "best.hsaco",
        other=tmp_path / "other.hsaco",
    )
    paths.k0.write_bytes(k0)
    paths.optimized.write_bytes(optimized)
    paths.other.write_bytes(other)
    write_manifest(folder, [entry_for(k0, optimized)])
    return paths


def entry_for(k0: bytes, optimized: bytes) -> SwapEntry:
    return SwapEntry(
        k0_sha256=hashlib.sha256(k0).hexdigest(),
        k0_size=len(k0),
        optimized_sha256=hashlib.sha256(optimized).hexdigest(),
        optimized_size=len(optimized),
        arch="gfx942",
        file_name="best.hsaco",
    )


def run(
    setup: Setup,
    library: Path | str,
    *images: Path,
    function: str = "hipModuleLoadData",
    environment: dict[str, str] | None = None,
) -> tuple[list[int], list[str], tuple[Event, ...]]:
    """Results, markers of the images the runtime saw, and the log."""
    command = [sys.executable, "-c", PROGRAM, function, str(library), *map(str, images)]
    done = subprocess.run(
        command,
        env=shim_environment(setup.folder, dict(os.environ) | (environment or {})),
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stderr == ""
    results, markers, last_error = json.loads(done.stdout)
    assert last_error == 0
    events = read_logs((setup.folder / "log").glob("*.log"))
    return results, [marker.rstrip("-") for marker in markers], events


@pytest.mark.parametrize("function", ["hipModuleLoadData", "hipModuleLoadDataEx", "hipModuleLoad"])
def test_object_of_the_manifest_is_swapped_and_others_are_not(
    setup: Setup, stub_hip: Path, function: str
) -> None:
    results, markers, events = run(
        setup, stub_hip, setup.k0, setup.other, setup.k0, function=function
    )

    assert results == [0, 0, 0]
    assert markers == ["BEST", "OTHER", "BEST"]
    assert [event.kind for event in events] == [
        EventKind.ACTIVE,
        EventKind.SWAPPED,
        EventKind.SWAPPED,
    ]
    assert events[1].k0_sha256 == hashlib.sha256(setup.k0.read_bytes()).hexdigest()
    assert events[1].detail == "best.hsaco"


def damage(setup: Setup) -> None:
    data = bytearray(setup.optimized.read_bytes())
    data[2000] ^= 1
    setup.optimized.write_bytes(data)


def cut(setup: Setup) -> None:
    setup.optimized.write_bytes(setup.optimized.read_bytes()[:-1])


def remove(setup: Setup) -> None:
    setup.optimized.unlink()


def make_fifo(setup: Setup) -> None:
    setup.optimized.unlink()
    os.mkfifo(setup.optimized)


def replace_by(optimized: bytes) -> Callable[[Setup], None]:
    def change(setup: Setup) -> None:
        setup.optimized.write_bytes(optimized)
        write_manifest(setup.folder, [entry_for(setup.k0.read_bytes(), optimized)])

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (damage, "SHA-256 differs"),
        (cut, "has 4095 bytes, not 4096"),
        (remove, "No such file"),
        (make_fifo, "not a regular file"),
        (replace_by(make_image(b"BEST", flags=0x54F)), "another chip"),
        (replace_by(b"\x7fELF" + b"x" * 99), "another chip"),
        (replace_by(b"FAIL"), "another chip"),
    ],
    ids=["damaged", "cut", "missing", "fifo", "chip", "no object", "short"],
)
def test_object_that_cannot_be_trusted_runs_k0_and_says_why(
    setup: Setup, stub_hip: Path, change: Callable[[Setup], None], reason: str
) -> None:
    change(setup)

    results, markers, events = run(setup, stub_hip, setup.k0)

    assert (results, markers) == ([0], ["K0"])
    assert [event.kind for event in events] == [EventKind.ACTIVE, EventKind.KEPT]
    assert reason in events[1].detail


def test_object_that_the_runtime_refuses_runs_k0(
    setup: Setup, build_stub: Callable[..., Path]
) -> None:
    refusing = build_stub("-O2", '-DREFUSED_MARKER="BEST"')

    results, markers, events = run(setup, refusing, setup.k0)

    assert (results, markers) == ([0], ["K0"])
    assert events[-1].kind is EventKind.KEPT
    assert "refused best.hsaco with error 98" in events[-1].detail


MANIFEST_LINE = " ".join(["0" * 64, "4096", "1" * 64, "4096", "gfx942", "best.hsaco"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "asmevo-swap 2\n",
        f"asmevo-swap 1\n{MANIFEST_LINE}",
        f"asmevo-swap 1\n{MANIFEST_LINE}\n{MANIFEST_LINE}\n",
        f"asmevo-swap 1\n{MANIFEST_LINE.replace('best', '../best')}\n",
        f"asmevo-swap 1\n{MANIFEST_LINE.replace('best', '.best')}\n",
        f"asmevo-swap 1\n{MANIFEST_LINE.replace('4096', '99999999999999999999')}\n",
        f"asmevo-swap 1\n{MANIFEST_LINE.replace('4096', '0')}\n",
        f"asmevo-swap 1\n{MANIFEST_LINE.replace('0000 ', '000 ')}\n",
        f"asmevo-swap 1\n{MANIFEST_LINE}\0\n",
        "asmevo-swap 1\n" + "x" * 300 + "\n",
        "\0" * 5000000,
    ],
)
def test_damaged_manifest_swaps_nothing_and_says_so(
    setup: Setup, stub_hip: Path, text: str
) -> None:
    (setup.folder / "manifest.txt").write_text(text)

    results, markers, events = run(setup, stub_hip, setup.k0)

    assert (results, markers) == ([0], ["K0"])
    assert [event.kind for event in events] == [EventKind.INACTIVE]
    assert "manifest.txt" in events[0].detail


def test_library_without_a_table_is_left_alone(
    setup: Setup, build_stub: Callable[..., Path]
) -> None:
    _, markers, events = run(setup, build_stub("-O2", "-DMODE_SHIFTED"), setup.k0)

    assert markers == ["K0"]
    assert events[0].kind is EventKind.INACTIVE
    assert "table offset" in events[0].detail


def test_image_that_is_no_whole_code_object_goes_through_unchanged(
    setup: Setup, stub_hip: Path, tmp_path: Path
) -> None:
    lying = bytearray(make_image(b"LYING"))
    struct.pack_into("<Q", lying, 40, 1 << 29)  # section headers far behind what is mapped
    huge = bytearray(make_image(b"HUGE"))
    struct.pack_into("<Q", huge, 40, (1 << 64) - 1)
    paths = []
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + bytes(99)
    for index, data in enumerate([bytes(lying), bytes(huge), bundle]):
        paths.append(tmp_path / f"{index}.bin")
        paths[-1].write_bytes(data)

    results, markers, events = run(setup, stub_hip, *paths)

    assert results == [0, 0, 0]
    assert markers[:2] == ["LYING", "HUGE"]
    assert [event.kind for event in events] == [EventKind.ACTIVE]


def test_library_preloaded_before_start_is_found(setup: Setup, stub_hip: Path) -> None:
    _, markers, _ = run(setup, stub_hip, setup.k0, environment={"LD_PRELOAD": str(stub_hip)})

    assert markers == ["BEST"]


def test_bare_name_is_found_along_the_callers_runpath(
    setup: Setup, stub_hip: Path, tmp_path: Path
) -> None:
    caller = tmp_path / "caller.so"
    source = tmp_path / "caller.c"
    source.write_text(
        "#include <dlfcn.h>\n"
        "#include <stddef.h>\n"
        'int opens(void) { return dlopen("libamdhip64.so", RTLD_NOW) != NULL; }\n'
    )
    compiler = os.environ.get("CC", "cc").split()
    runpath = f"-Wl,--enable-new-dtags,-rpath,{stub_hip.parent}"
    subprocess.run([*compiler, "-shared", "-fPIC", runpath, source, "-o", str(caller)], check=True)
    program = f"import ctypes; print(ctypes.CDLL({str(caller)!r}).opens())"

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=shim_environment(setup.folder, os.environ),
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout == "1\n"
    assert read_logs((setup.folder / "log").glob("*.log"))[0].kind is EventKind.ACTIVE


def test_many_threads_loading_get_the_optimized_object(setup: Setup, stub_hip: Path) -> None:
    program = """
import ctypes, sys, threading
library, data = ctypes.CDLL(sys.argv[1]), open(sys.argv[2], "rb").read()
library.stub_loaded.restype = ctypes.POINTER(ctypes.c_char)
def work():
    for _ in range(50):
        assert library.hipModuleLoadData(ctypes.byref(ctypes.c_void_p()), data) == 0
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print({bytes(library.stub_loaded(i)[:64][9:13]) for i in range(16)})
"""

    done = subprocess.run(
        [sys.executable, "-c", program, stub_hip, setup.k0],
        env=shim_environment(setup.folder, os.environ),
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout == "{b'BEST'}\n"
    events = read_logs((setup.folder / "log").glob("*.log"))
    assert [event.kind for event in events].count(EventKind.SWAPPED) == 400


def test_program_without_the_variable_is_left_alone(setup: Setup, stub_hip: Path) -> None:
    environment = shim_environment(setup.folder, os.environ)
    del environment["ASMEVO_SWAP_DIR"]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "hipModuleLoadData", stub_hip, setup.k0],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )

    assert "K0" in done.stdout
    assert not (setup.folder / "log").exists()
