"""Which memory a dispatch reaches, through the resident library on the stub."""

from __future__ import annotations

import ctypes
import struct

from hot_path_target import Target, arm, arm_for_capture, contents, make_layout, u64

from asmevo.capture.control_block import ControlBlock, RecordStatus, Verdict

PAGE = 4096


def regions(block: ControlBlock) -> list[tuple[int, int]]:
    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    return sorted((r.address, r.size) for r in record.regions[: record.region_count])


def test_window_keeps_what_is_around_each_pointer(target: Target) -> None:
    block = target.open("add_one")
    block.fields.window_bytes = 2 * PAGE
    memory = target.allocate(bytes(64 * PAGE))
    arm_for_capture(target, block)

    target.launch(u64(memory + 40 * PAGE + 8), u64(memory), ctypes.c_uint32(1))

    assert regions(block) == [
        (memory, 2 * PAGE),
        (memory + 38 * PAGE, 4 * PAGE + 8),
    ]
    record = block.fields.record
    assert {(r.allocation, r.allocation_size) for r in record.regions[:2]} == {(memory, 64 * PAGE)}
    assert list(record.pointer_regions[:3]) != [-1, -1, -1]


def test_windows_that_overlap_become_one(target: Target) -> None:
    block = target.open("add_one")
    block.fields.window_bytes = 2 * PAGE
    memory = target.allocate(bytes(64 * PAGE))
    arm_for_capture(target, block)

    target.launch(u64(memory + 10 * PAGE), u64(memory + 12 * PAGE), ctypes.c_uint32(1))

    assert regions(block) == [(memory + 8 * PAGE, 6 * PAGE)]


def test_pointers_in_memory_are_followed(target: Target) -> None:
    block = target.open("add_one")
    block.fields.scan_bytes = 64 << 10
    leaves = [target.allocate(bytes([i]) * 100) for i in range(2)]
    table = target.allocate(struct.pack("=QQQ", leaves[0] + 4, 12345, leaves[1]))
    root = target.allocate(struct.pack("=QQ", 0, table))
    unrelated = target.allocate(b"x")
    arm_for_capture(target, block)

    target.launch(u64(root), u64(root), ctypes.c_uint32(0))

    addresses = [address for address, _ in regions(block)]
    assert sorted([root, table, *leaves]) == addresses
    assert unrelated not in addresses
    record = block.fields.record
    assert [(p.at, p.value) for p in record.memory_pointers[: record.memory_pointer_count]] == [
        (root + 8, table),
        (table, leaves[0] + 4),
        (table + 16, leaves[1]),
    ]


def test_word_that_leads_to_too_much_memory_is_taken_for_data(target: Target) -> None:
    block = target.open("add_one")
    block.fields.scan_bytes = 64 << 10
    block.fields.max_bytes = 1 << 20
    huge = target.allocate(bytes(2 << 20))
    root = target.allocate(struct.pack("=Q", huge))
    arm_for_capture(target, block)

    target.launch(u64(root), u64(root), ctypes.c_uint32(0))

    assert regions(block) == [(root, 8)]


def test_address_split_over_two_integers_is_found(target: Target) -> None:
    block = target.open("add_one")
    layout = make_layout()
    layout.argument_count, layout.kernarg_bytes = 4, 24
    for index, (offset, size) in enumerate([(0, 4), (4, 4), (8, 4), (16, 8)]):
        layout.arguments[index].offset, layout.arguments[index].size = offset, size
    memory = target.allocate(b"split")
    arm(block)
    target.launch(u64(0), u64(0), ctypes.c_uint32(0))
    block.set_layout(0, layout)
    block.answer(block.fields.record, Verdict.WANTED)
    arm(block)

    low, high = memory & 0xFFFFFFFF, memory >> 32
    kernarg = struct.pack("=IIIIQ", 0, low, high, 0, 0)
    buffer = ctypes.create_string_buffer(kernarg, 24)
    buffer_bytes = ctypes.c_size_t(24)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(buffer_bytes), 3)
    geometry = (ctypes.c_uint(1), 1, 1, ctypes.c_uint(64), 1, 1, ctypes.c_uint(0))
    target.hip.hipModuleLaunchKernel(target.function, *geometry, None, None, extra)

    assert regions(block) == [(memory, 5)]
    assert block.fields.record.pointer_regions[1] == 0


def test_variables_of_the_code_object_are_captured(target: Target) -> None:
    block = target.open("add_one")
    block.fields.scan_bytes = 64 << 10
    leaf = target.allocate(b"leaf")
    variable = target.allocate(struct.pack("=QQ", leaf, 7))
    arm_for_capture(target, block)
    layout = make_layout()
    layout.variable_count = 1
    layout.variables[0].address, layout.variables[0].size = variable, 16
    block.set_layout(0, layout)

    target.launch(u64(0), u64(0), ctypes.c_uint32(0))

    record = block.fields.record
    assert regions(block) == sorted([(variable, 16), (leaf, 4)])
    kinds = {int(r.address): int(r.kind) for r in record.regions[:2]}
    assert kinds == {variable: 4, leaf: 0}
    assert (struct.pack("=QQ", leaf, 7),) * 2 in contents(target, record)


def test_pieces_of_a_segment_of_virtual_memory_are_one_allocation(target: Target) -> None:
    block = target.open("add_one", data_bytes=1 << 20)
    content = bytes(range(256)) * (8 * PAGE // 256)
    memory = target.allocate(content)
    target.hip.stub_divide(ctypes.c_void_p(memory), 4)
    arm_for_capture(target, block)

    target.launch(u64(memory + 3 * PAGE), u64(memory + 5 * PAGE), ctypes.c_uint32(0))

    assert regions(block) == [(memory, 8 * PAGE)]
    assert contents(target, block.fields.record)[0][0] == content


def test_copies_are_made_in_the_order_of_the_stream(target: Target) -> None:
    block = target.open("add_one")
    block.fields.scan_bytes = 64 << 10
    memory = target.allocate(bytes(64))
    arm_for_capture(target, block)
    before = target.hip.stub_blocking_copies()

    target.launch(u64(memory), u64(memory), ctypes.c_uint32(1), stream=0x8)

    assert regions(block) == [(memory, 64)]
    assert target.hip.stub_blocking_copies() == before
