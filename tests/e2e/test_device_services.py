"""What kernels ask of the host: printf, assert, malloc; and grids that only the runtime can make.

The kernels are linked with ROCm's device library of the triton wheel.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asmevo.replay.device import Device

FIXTURES = Path(__file__).parents[1] / "fixtures"
CLANG = next(filter(None, map(shutil.which, ("clang-22", "clang-21"))), None)
ISA_VERSIONS = {"gfx90a": "9010", "gfx942": "9402", "gfx950": "9500"}

pytestmark = pytest.mark.skipif(CLANG is None, reason="needs a clang with AMDGPU")

PRELUDE = """
import ctypes, sys
hip = ctypes.CDLL("libamdhip64.so")
module = ctypes.c_void_p()
def call(name, *arguments):
    status = getattr(hip, name)(*arguments)
    assert status == 0, (name, status)
call("hipModuleLoadData", ctypes.byref(module), open(sys.argv[1], "rb").read())
def find(name):
    function = ctypes.c_void_p()
    call("hipModuleGetFunction", ctypes.byref(function), module, name)
    return function
def pack(*values):
    return (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
def launch(name, grid, *values):
    f = find(name)
    return hip.hipModuleLaunchKernel(f, grid, 1, 1, 64, 1, 1, 0, None, pack(*values), None)
def allocate(count):
    pointer = ctypes.c_void_p()
    call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(4 * count))
    call("hipMemset", pointer, 0, ctypes.c_size_t(4 * count))
    return pointer
def read(pointer, count):
    back = (ctypes.c_uint32 * count)()
    call("hipMemcpy", back, pointer, ctypes.c_size_t(4 * count), 2)
    return list(back)
"""


def compile_services(folder: Path, *, arch: str = "gfx942", flags: tuple[str, ...] = ()) -> Path:
    import triton

    ockl = Path(triton.__file__).parent / "backends" / "amd" / "lib" / "ockl.bc"
    out = folder / f"services-{arch}.co"
    command = [str(CLANG), "-x", "hip", f"--offload-arch={arch}", "-nogpuinc", "-nogpulib"]
    command += ["--cuda-device-only", "--no-gpu-bundle-output", "-O2", *flags]
    command += [f"-DISA_VERSION={ISA_VERSIONS[arch]}", "-Xclang", "-mlink-builtin-bitcode"]
    command += ["-Xclang", str(ockl), str(FIXTURES / "device_services.hip"), "-o", str(out)]
    subprocess.run(command, check=True)
    return out


def run(
    code: str, *arguments: str | Path, arch: str = "gfx942"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        env=Device.emulated(arch=arch).environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("kind", ["hostcall", "buffered"])
def test_printf_of_a_kernel_comes_out_in_order(kind: str, arch: str, tmp_path: Path) -> None:
    image = compile_services(tmp_path, arch=arch, flags=(f"-mprintf-kind={kind}",))
    code = "call_ = launch(b'say', 2, ctypes.c_int(100), ctypes.c_double(1.5), ctypes.c_void_p(18))"

    done = run(code, image, arch=arch)

    expected = "".join(
        f"item {100 + i:3d}: words|{1.5 * i:<8.3f}|{0x123456789ABC + i:x}|"
        f"{chr(ord('a') + i % 26)}|1.00e+10|%|0x12\n"
        for i in (1, 33, 65, 97)
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_failed_assertion_is_printed_and_ends_the_launch(tmp_path: Path) -> None:
    code = """
data = allocate(64)
call("hipMemset", data, 1, ctypes.c_size_t(256))
assert launch(b"check", 1, data, ctypes.c_int(0x01010102)) == 0
print(launch(b"check", 1, data, ctypes.c_int(5)), hip.hipDeviceSynchronize(), hip.hipGetLastError())
call("hipDeviceReset")
assert launch(b"check", 1, data, ctypes.c_int(0x01010102)) == 0
"""
    done = run(code, compile_services(tmp_path))

    assert done.returncode == 0, done.stderr
    assert done.stdout == "710 710 710\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "services.hip:0: Device-side assertion `data[i] < limit' failed."
    assert lines[63].startswith("services.hip:63:")
    assert "s_trap 2" in done.stderr


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_device_malloc_gives_memory_of_its_own_to_every_work_item(
    arch: str, tmp_path: Path
) -> None:
    code = """
sums = allocate(2 * 128)
for count in (9, 4):
    call_ = launch(b"heap", 2, ctypes.c_int(count), sums)
    expected = [i * 1000 * count + count * (count - 1) // 2 for i in range(128)]
    assert call_ == 0 and read(sums, 256)[::2] == expected
"""
    done = run(code, compile_services(tmp_path, arch=arch), arch=arch)
    assert (done.returncode, done.stderr) == (0, "")


def test_partial_workgroups_have_the_size_that_is_left(tmp_path: Path) -> None:
    code = """
out = allocate(128 * 8)
f = find(b"extents")
call("hipExtModuleLaunchKernel", f, 100, 6, 1, 64, 4, 1, ctypes.c_size_t(0), None,
     pack(out, ctypes.c_int(128)), None, None, None, 0)
rows = [read(out, 1024)[128 * y : 128 * y + 128] for y in range(8)]
for y in range(8):
    for x in range(128):
        inside = x < 100 and y < 6
        expected = (64 if x < 64 else 36) | (4 if y < 4 else 2) << 8 | 100 << 16 | 2 << 28
        assert rows[y][x] == (expected if inside else 0), (x, y, hex(rows[y][x]))
"""
    done = run(code, compile_services(tmp_path, flags=("-fno-offload-uniform-block",)))
    assert (done.returncode, done.stderr) == (0, "")


def test_partial_workgroups_are_refused_to_kernels_compiled_for_whole_ones(tmp_path: Path) -> None:
    code = """
out = allocate(128)
print(hip.hipExtModuleLaunchKernel(find(b"extents"), 100, 1, 1, 64, 1, 1, ctypes.c_size_t(0), None,
                                   pack(out, ctypes.c_int(128)), None, None, None, 0))
"""
    done = run(code, compile_services(tmp_path))
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "compiled for whole ones" in done.stderr


def test_cooperative_launch_meets_in_the_grid_and_is_limited_to_what_is_resident(
    tmp_path: Path,
) -> None:
    code = """
groups = 40
values, sums, blocks = allocate(groups), allocate(groups), ctypes.c_int()
meet = find(b"meet")
def cooperate(count):
    return hip.hipModuleLaunchCooperativeKernel(
        meet, count, 1, 1, 64, 1, 1, 0, None, pack(values, sums, ctypes.c_int(count)))
assert cooperate(groups) == 0
assert read(sums, groups) == [groups * (groups + 1) // 2] * groups
call("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), meet, 64,
     ctypes.c_size_t(0))
print(cooperate(304 * blocks.value + 1), blocks.value)
"""
    done = run(code, compile_services(tmp_path))
    assert (done.returncode, done.stdout.split()[0]) == (0, "720"), done.stderr
    assert "not all workgroups fit" in done.stderr


TRITON_PROGRAM = """
import torch, triton, triton.language as tl
@triton.jit
def show(x_ptr, limit, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = tl.load(x_ptr + i)
    tl.device_print("x", x)
    tl.device_assert(x < limit, "too large")
x = torch.arange(128, dtype=torch.int32, device="cuda") * 3
show[(2,)](x, 1000, SIZE=64, num_warps=1)
torch.cuda.synchronize()
print("first launch done", flush=True)
show[(2,)](x, 200, SIZE=64, num_warps=1)
"""


def test_triton_prints_and_asserts_on_the_device(tmp_path: Path) -> None:
    program = tmp_path / "show.py"
    program.write_text(TRITON_PROGRAM)
    environment = Device.emulated().environment(torch=True)
    environment |= {"TRITON_DEBUG": "1", "TRITON_CACHE_DIR": str(tmp_path / "cache")}

    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    first, _, second = done.stdout.partition("first launch done\n")
    expected = [
        f"pid ({pid}, 0, 0) idx ({i:2d}) x: {3 * (64 * pid + i)}"
        for pid in range(2)
        for i in range(64)
    ]
    assert first.splitlines() == expected
    assert "too large" in second + done.stderr
    assert "710" in done.stderr or "assert" in done.stderr
    assert done.returncode != 0
