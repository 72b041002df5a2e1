"""Loading code objects into the emulated device."""

from __future__ import annotations

import ctypes
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from asmevo import native
from asmevo.codeobject import toolchain

SUCCESS, INVALID_VALUE, INVALID_IMAGE, NO_BINARY, FILE_NOT_FOUND = 0, 1, 200, 209, 301
INVALID_HANDLE, NOT_FOUND, INVALID_DEVICE_FUNCTION = 400, 500, 98
FIXTURES = Path(__file__).parents[2] / "fixtures"
DEVICE_TO_HOST = 2


class LinkMap(ctypes.Structure):
    pass


LinkMap._fields_ = (
    ("l_addr", ctypes.c_uint64),
    ("l_name", ctypes.c_char_p),
    ("l_ld", ctypes.c_void_p),
    ("l_next", ctypes.POINTER(LinkMap)),
    ("l_prev", ctypes.POINTER(LinkMap)),
)


class RDebug(ctypes.Structure):
    _fields_ = (
        ("r_version", ctypes.c_int),
        ("r_map", ctypes.POINTER(LinkMap)),
        ("r_brk", ctypes.c_uint64),
        ("r_state", ctypes.c_int),
        ("r_ldbase", ctypes.c_uint64),
    )


def load(hip: ctypes.CDLL, image: bytes) -> tuple[int, ctypes.c_void_p]:
    module = ctypes.c_void_p()
    return hip.hipModuleLoadData(ctypes.byref(module), image), module


@pytest.fixture
def module(hip_library: ctypes.CDLL, kernarg_dump: bytes) -> Iterator[ctypes.c_void_p]:
    status, loaded = load(hip_library, kernarg_dump)
    assert status == SUCCESS
    yield loaded
    assert hip_library.hipModuleUnload(loaded) == SUCCESS


def get_global(hip: ctypes.CDLL, module: ctypes.c_void_p, name: bytes) -> tuple[int, int, int]:
    address, size = ctypes.c_void_p(), ctypes.c_size_t()
    status = hip.hipModuleGetGlobal(ctypes.byref(address), ctypes.byref(size), module, name)
    return status, address.value or 0, size.value


def find_published(hip: ctypes.CDLL) -> list[tuple[int, str]]:
    entries, node = [], RDebug.in_dll(hip, "_amdgpu_r_debug").r_map
    while node:
        entries.append((node.contents.l_addr, node.contents.l_name.decode()))
        node = node.contents.l_next
    return entries


def bundle(entries: dict[str, bytes]) -> bytes:
    """An uncompressed offload bundle."""
    table_size = sum(24 + len(name) for name in entries)
    offset = 32 + table_size
    table, data = b"", b""
    for name, content in entries.items():
        table += struct.pack("<QQQ", offset + len(data), len(content), len(name)) + name.encode()
        data += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + data


def test_function_is_found_by_name_only(hip_library: ctypes.CDLL, module: ctypes.c_void_p) -> None:
    function = ctypes.c_void_p()
    get = hip_library.hipModuleGetFunction

    assert get(ctypes.byref(function), module, b"kernarg_dump") == SUCCESS
    assert get(ctypes.byref(function), module, b"no_such_kernel") == NOT_FOUND
    assert get(ctypes.byref(function), ctypes.c_void_p(64), b"kernarg_dump") == INVALID_HANDLE


def test_function_attributes_come_from_the_descriptor(
    hip_library: ctypes.CDLL, module: ctypes.c_void_p
) -> None:
    function, value = ctypes.c_void_p(), ctypes.c_int()
    hip_library.hipModuleGetFunction(ctypes.byref(function), module, b"kernarg_dump")

    for attribute, expected in ((0, 256), (1, 1024), (3, 0), (4, 8), (8, 64512)):
        status = hip_library.hipFuncGetAttribute(ctypes.byref(value), attribute, function)
        assert (status, value.value) == (SUCCESS, expected)


def test_global_is_loaded_and_relocated(hip_library: ctypes.CDLL, module: ctypes.c_void_p) -> None:
    status, counter, size = get_global(hip_library, module, b"counter")
    assert (status, size) == (SUCCESS, 16)
    _, pointer, _ = get_global(hip_library, module, b"counter_address")
    values = (ctypes.c_uint64 * 3)()

    hip_library.hipMemcpy(values, ctypes.c_void_p(counter), ctypes.c_size_t(16), DEVICE_TO_HOST)
    into = ctypes.byref(values, 16)
    hip_library.hipMemcpy(into, ctypes.c_void_p(pointer), ctypes.c_size_t(8), DEVICE_TO_HOST)

    assert list(values) == [41, 42, counter]
    assert get_global(hip_library, module, b"no_such_variable")[0] == NOT_FOUND


def test_loaded_object_is_published_with_its_image(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    before = find_published(hip_library)
    _, module = load(hip_library, kernarg_dump)

    (added,) = [entry for entry in find_published(hip_library) if entry not in before]
    hip_library.hipModuleGetFunction(ctypes.byref(ctypes.c_void_p()), module, b"kernarg_dump")
    prefix, _, place = added[1].partition("#")
    offset, size = (int(item.split("=")[1], 0) for item in place.split("&"))

    assert prefix == f"memory://{os.getpid()}"
    assert ctypes.string_at(offset, size) == kernarg_dump
    assert get_global(hip_library, module, b"counter")[1] > added[0]
    hip_library.hipModuleUnload(module)
    assert find_published(hip_library) == before


def test_unloaded_module_is_not_usable(hip_library: ctypes.CDLL, kernarg_dump: bytes) -> None:
    _, module = load(hip_library, kernarg_dump)
    function = ctypes.c_void_p()
    hip_library.hipModuleGetFunction(ctypes.byref(function), module, b"kernarg_dump")

    assert hip_library.hipModuleUnload(module) == SUCCESS

    assert hip_library.hipModuleUnload(module) == INVALID_HANDLE
    geometry = (1, 1, 1, 64, 1, 1, 0, None, None, None)
    assert hip_library.hipModuleLaunchKernel(function, *geometry) == INVALID_HANDLE


def test_module_loads_from_a_file(
    hip_library: ctypes.CDLL, kernarg_dump: bytes, tmp_path: Path
) -> None:
    path, module = tmp_path / "k.hsaco", ctypes.c_void_p()
    path.write_bytes(kernarg_dump)

    assert hip_library.hipModuleLoad(ctypes.byref(module), bytes(path)) == SUCCESS
    assert hip_library.hipModuleUnload(module) == SUCCESS
    missing = bytes(tmp_path / "none.hsaco")
    assert hip_library.hipModuleLoad(ctypes.byref(module), missing) == FILE_NOT_FOUND


def test_other_architecture_is_no_binary_for_the_gpu(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    for machine in (0x3F, 0x4F, 0x41):  # gfx90a, gfx950, gfx1100
        image = bytearray(kernarg_dump)
        image[48] = machine  # e_flags
        assert load(hip_library, bytes(image))[0] == NO_BINARY


def test_xnack_on_object_is_refused(hip_library: ctypes.CDLL, kernarg_dump: bytes) -> None:
    image = bytearray(kernarg_dump)
    image[49] |= 0x03

    assert load(hip_library, bytes(image))[0] == NO_BINARY


def test_bundle_entry_for_the_device_is_taken(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    image = bundle(
        {
            "host-x86_64-unknown-linux-gnu-": b"",
            "hipv4-amdgcn-amd-amdhsa--gfx90a": b"not for this device",
            "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-": kernarg_dump,
        }
    )

    status, module = load(hip_library, image)

    assert status == SUCCESS
    hip_library.hipModuleUnload(module)


def test_bundle_without_the_device_is_no_binary(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    image = bundle({"hipv4-amdgcn-amd-amdhsa--gfx942:xnack+": kernarg_dump})

    assert load(hip_library, image)[0] == NO_BINARY


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b"CCOB" + bytes(64), b"text" * 99])
def test_what_is_no_code_object_is_an_invalid_image(hip_library: ctypes.CDLL, image: bytes) -> None:
    assert load(hip_library, image)[0] == INVALID_IMAGE


@pytest.mark.parametrize("version", [4, 5, 6])
def test_code_object_versions_are_loaded(hip_library: ctypes.CDLL, version: int) -> None:
    text = (FIXTURES / "kernarg_dump.s").read_text()
    text = text.replace(".text", f".amdhsa_code_object_version {version}\n.text", 1)
    image = toolchain.link(toolchain.assemble(text, "gfx942"))
    assert image[8] == version - 2  # EI_ABIVERSION

    status, module = load(hip_library, image)

    assert status == SUCCESS
    hip_library.hipModuleUnload(module)


def test_other_code_object_version_is_an_invalid_image(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    for abi_version in (0, 1, 5):
        image = bytearray(kernarg_dump)
        image[8] = abi_version
        assert load(hip_library, bytes(image))[0] == INVALID_IMAGE


class FatBinaryWrapper(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("binary", ctypes.c_char_p),
        ("unused", ctypes.c_void_p),
    )


def test_registered_code_object_is_loaded_on_first_use(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    """The way of AITER: a bare code object, registered as a fat binary."""
    hip = hip_library
    register, unregister = hip["__hipRegisterFatBinary"], hip["__hipUnregisterFatBinary"]
    register.restype = ctypes.c_void_p
    wrapper = FatBinaryWrapper(magic=0x48495046, version=1, binary=kernarg_dump)
    before, function, stub = find_published(hip), ctypes.c_void_p(), ctypes.c_uint64()
    size = ctypes.c_size_t()
    binary = ctypes.c_void_p(register(ctypes.byref(wrapper)))
    name = b"kernarg_dump"

    hip["__hipRegisterFunction"](
        binary, ctypes.byref(stub), name, name, -1, None, None, None, None, None
    )
    hip["__hipRegisterVar"](
        binary, ctypes.byref(size), b"counter", b"counter", 0, ctypes.c_size_t(16), 0, 0
    )

    assert find_published(hip) == before
    assert hip.hipGetFuncBySymbol(ctypes.byref(function), ctypes.byref(stub)) == SUCCESS
    assert len(find_published(hip)) == len(before) + 1
    assert hip.hipGetSymbolSize(ctypes.byref(size), ctypes.byref(size)) == SUCCESS
    assert size.value == 16
    unregister(binary)
    assert find_published(hip) == before
    assert hip.hipGetFuncBySymbol(ctypes.byref(function), ctypes.byref(stub)) == (
        INVALID_DEVICE_FUNCTION
    )


def test_modules_load_and_unload_in_several_threads(
    hip_library: ctypes.CDLL, kernarg_dump: bytes
) -> None:
    def work() -> bool:
        statuses = set()
        for _ in range(50):
            status, module = load(hip_library, kernarg_dump)
            statuses |= {status, hip_library.hipModuleUnload(module)}
        return statuses == {SUCCESS}

    before = find_published(hip_library)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: work(), range(4)))
    assert find_published(hip_library) == before


def test_null_image_is_refused(hip_library: ctypes.CDLL) -> None:
    module = ctypes.c_void_p()

    assert hip_library.hipModuleLoadData(ctypes.byref(module), None) == INVALID_VALUE
    unmapped = ctypes.c_void_p(64)
    assert hip_library.hipModuleLoadData(ctypes.byref(module), unmapped) == INVALID_IMAGE


# Loads from a file in memory, so that the image ends where it was cut.
FUZZ = """
import ctypes, os, random, sys
hip = ctypes.CDLL(sys.argv[1])
image, generator = open(sys.argv[2], "rb").read(), random.Random(int(sys.argv[3]))
file = os.memfd_create("image")
path = f"/proc/self/fd/{file}".encode()
statuses = set()

def load(data):
    os.ftruncate(file, 0)
    os.pwrite(file, data, 0)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    status = hip.hipModuleLoad(ctypes.byref(module), path)
    statuses.add(status)
    if status == 0:
        hip.hipModuleGetFunction(ctypes.byref(function), module, b"kernarg_dump")
        hip.hipModuleGetGlobal(ctypes.byref(function), None, module, b"counter")
        assert hip.hipModuleUnload(module) == 0
    return status

for size in range(0, len(image), 13):
    assert load(image[:size]) in (200, 209), size
for _ in range(3000):
    data = bytearray(image)
    for _ in range(generator.randint(1, 8)):
        place = generator.randrange(generator.choice((64, 512, len(data))))
        data[place] = generator.choice((0, 1, 0x7f, 0x80, 0xff, generator.randrange(256)))
    assert load(data) in (0, 2, 200, 209)
assert load(image) == 0
print(sorted(statuses - {2}))
"""


def test_damaged_images_never_crash(kernarg_dump: bytes, tmp_path: Path) -> None:
    image = tmp_path / "image.hsaco"
    image.write_bytes(kernarg_dump)
    seed = random.randrange(1 << 30)
    command = [sys.executable, "-c", FUZZ, str(native.emulator_library())]

    done = subprocess.run(
        [*command, str(image), str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, f"seed {seed}"
    assert done.stdout.strip() == "[0, 200, 209]", f"seed {seed}"
