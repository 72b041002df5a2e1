from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[3] / "capture" / "agent"
LAUNCH, MALLOC = 308, 215


class Thunk(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("displacement", ctypes.c_int32),
    ]


class Table(ctypes.Structure):
    _fields_ = [
        ("slots", ctypes.POINTER(ctypes.c_void_p)),
        ("count", ctypes.c_size_t),
        ("library", ctypes.c_void_p),
        ("thunk", Thunk),
        ("path", ctypes.c_char * 4096),
    ]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The table code as a library of its own, with everything exported."""
    library = tmp_path_factory.mktemp("table") / "table.so"
    sources = [AGENT / name for name in ("hip_table.c", "hip_thunk.c", "memory_map.c")]
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", *sources, "-o", library], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.hip_table_has.restype = ctypes.c_bool
    loaded.hip_slot_get.restype = ctypes.c_void_p
    return loaded


def find(agent: ctypes.CDLL, path: Path) -> tuple[Table, ctypes.CDLL]:
    stub = ctypes.CDLL(str(path))
    stub.stub_slot.restype = ctypes.c_void_p
    stub.stub_launches.restype = ctypes.c_uint64
    table = Table()
    error = ctypes.create_string_buffer(256)
    handle = ctypes.c_void_p(stub._handle)
    if agent.hip_table_find(ctypes.byref(table), handle, error, len(error)) != 0:
        raise LookupError(error.value.decode())
    return table, stub


def decode(agent: ctypes.CDLL, code: bytes) -> Thunk | None:
    thunk = Thunk()
    if agent.hip_thunk_decode(code, ctypes.c_size_t(len(code)), ctypes.byref(thunk)) != 0:
        return None
    return thunk


@pytest.mark.parametrize(
    "options",
    [
        ("-O0",),
        ("-O1",),
        ("-O2",),
        ("-O3", "-fcf-protection=full", "-fstack-protector-all"),
        ("-O2", "-fno-plt", "-fomit-frame-pointer", "-mno-red-zone"),
        ("-O2", "-DVISIBLE_GETTER"),  # through the PLT
        ("-O2", "-DVISIBLE_GETTER", "-fno-plt"),
    ],
    ids=" ".join,
)
def test_table_of_any_optimisation_level_is_found(
    agent: ctypes.CDLL, build_stub: Callable[..., Path], options: tuple[str, ...]
) -> None:
    table, stub = find(agent, build_stub(*options))

    assert table.count == 517
    assert table.slots[LAUNCH] == stub.stub_slot(LAUNCH)
    assert agent.hip_table_has(ctypes.byref(table), LAUNCH)
    assert not agent.hip_table_has(ctypes.byref(table), 486)  # not exported by the stub


def test_table_with_shifted_slots_is_refused(
    agent: ctypes.CDLL, build_stub: Callable[..., Path]
) -> None:
    with pytest.raises(LookupError, match=r"hipModuleLoadData .* reads table offset 0x9c0, not"):
        find(agent, build_stub("-O2", "-DMODE_SHIFTED"))


def test_library_without_a_table_is_refused(
    agent: ctypes.CDLL, build_stub: Callable[..., Path]
) -> None:
    with pytest.raises(LookupError, match="is not a thunk over a dispatch table"):
        find(agent, build_stub("-O2", "-DMODE_NO_TABLE"))


@pytest.mark.parametrize(
    ("code", "kind", "displacement"),
    [
        ("ff1500000000 ffa0a8090000", 2, 0x9A8),  # call [rip+…]; jmp [rax+disp32]
        ("e800000000 ffa0a8090000", 0, 0x9A8),  # call getter; jmp [rax+disp32]
        ("f30f1efa 50 e800000000 ff6040", 0, 0x40),  # endbr64; push; call; jmp [rax+disp8]
        ("e800000000 4989c3 41ffa3a8090000", 0, 0x9A8),  # mov r11, rax; jmp [r11+disp]
        ("e800000000 488b80a8090000 4883c408 ffe0", 0, 0x9A8),  # mov rax, [rax+disp]; jmp rax
        ("488b0500000000 ffa0a8090000", 1, 0x9A8),  # mov rax, [rip+…]; jmp [rax+disp]
        ("488d0500000000 ffa0a8090000", 3, 0x9A8),  # lea rax, [rip+…]; jmp [rax+disp]
    ],
)
def test_thunk_of_a_known_shape_is_decoded(
    agent: ctypes.CDLL, code: str, kind: int, displacement: int
) -> None:
    thunk = decode(agent, bytes.fromhex(code))

    assert thunk is not None
    assert (thunk.kind, thunk.displacement) == (kind, displacement)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "c3",
        "31c0 c3",
        "e800000000 c3",
        "e800000000 e800000000 ffa0a8090000",  # two calls
        "e800000000 31c0 ffe0",  # jumps through something else
        "e800000000 ffa0a809",  # cut
        "ffa0a8090000",  # no getter
        "0f05 e800000000 ffa0a8090000",  # syscall: not an instruction of a thunk
        "e900000000 e800000000 ffa0a8090000",  # jumps away first
        "e800000000 ffa4c8a8090000",  # indexed
        "66" * 64,
    ],
)
def test_thunk_of_another_shape_is_refused(agent: ctypes.CDLL, code: str) -> None:
    assert decode(agent, bytes.fromhex(code)) is None


def test_thunk_decoder_survives_any_bytes(agent: ctypes.CDLL) -> None:
    for seed in range(20000):
        state = (seed * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1)
        code = b"".join(
            ((state * (i + 3) ** 5) & (2**64 - 1)).to_bytes(8, "little") for i in range(5)
        )
        decode(agent, code[: seed % 41])


HOOK_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)


def test_slot_swapped_and_restored_calls_hook_then_original(
    agent: ctypes.CDLL, stub_hip: Path
) -> None:
    table, stub = find(agent, stub_hip)
    before = table.slots[MALLOC]
    original = ctypes.c_void_p()
    hook = HOOK_TYPE(lambda pointer, size: 42)
    hook_address = ctypes.cast(hook, ctypes.c_void_p)

    agent.hip_slot_swap(ctypes.byref(table), MALLOC, hook_address, ctypes.byref(original))
    hooked = stub.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(16))
    restored = agent.hip_slot_restore(ctypes.byref(table), MALLOC, hook_address, original)
    after = stub.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(16))

    assert (hooked, restored, after) == (42, 0, 0)
    assert original.value == before == table.slots[MALLOC]


def test_slot_hooked_by_somebody_else_is_not_restored(agent: ctypes.CDLL, stub_hip: Path) -> None:
    table, _ = find(agent, stub_hip)
    before = table.slots[MALLOC]
    original = ctypes.c_void_p()
    ours, theirs = ctypes.c_void_p(0x1000), ctypes.c_void_p(0x2000)
    agent.hip_slot_swap(ctypes.byref(table), MALLOC, ours, ctypes.byref(original))
    table.slots[MALLOC] = theirs

    result = agent.hip_slot_restore(ctypes.byref(table), MALLOC, ours, original)

    assert result == -1
    assert table.slots[MALLOC] == theirs.value
    table.slots[MALLOC] = before


def test_slot_swapped_under_load_loses_no_launch(agent: ctypes.CDLL, stub_hip: Path) -> None:
    table, stub = find(agent, stub_hip)
    start = stub.stub_launches()
    stop = threading.Event()
    counts = [0] * 4
    launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 11)
    real = launch(table.slots[LAUNCH])
    hook = launch(lambda *arguments: int(real(*arguments)))
    hook_address = ctypes.cast(hook, ctypes.c_void_p)

    def work(index: int) -> None:
        while not stop.is_set():
            assert stub.hipModuleLaunchKernel(*[None] * 11) == 0
            counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    original = ctypes.c_void_p()
    for _ in range(300):
        agent.hip_slot_swap(ctypes.byref(table), LAUNCH, hook_address, ctypes.byref(original))
        assert agent.hip_slot_restore(ctypes.byref(table), LAUNCH, hook_address, original) == 0
    stop.set()
    for thread in threads:
        thread.join()

    assert stub.stub_launches() - start == sum(counts) > 0
