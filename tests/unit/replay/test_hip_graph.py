"""Stream capture and graph launches on the emulated device."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

SUCCESS, INVALID_VALUE, INVALID_HANDLE, ILLEGAL_STATE, CAPTURE_UNSUPPORTED = 0, 1, 400, 401, 900
CAPTURE_INVALIDATED, UNMATCHED, UNJOINED, ISOLATION, CAPTURED_EVENT = 901, 903, 904, 905, 907
SIZE = ctypes.c_size_t(256)
NODE_KERNEL, NODE_COPY, NODE_FILL = 0, 1, 2


class Device:
    """kernarg_dump, two streams and two buffers."""

    def __init__(self, hip: ctypes.CDLL, image: bytes) -> None:
        self.hip = hip
        self.module, self.function, self.stream, self.other, self.event, self.out, self.copy = (
            ctypes.c_void_p() for _ in range(7)
        )
        assert hip.hipModuleLoadData(ctypes.byref(self.module), image) == SUCCESS
        name = b"kernarg_dump"
        assert hip.hipModuleGetFunction(ctypes.byref(self.function), self.module, name) == SUCCESS
        for stream in (self.stream, self.other):
            assert hip.hipStreamCreate(ctypes.byref(stream)) == SUCCESS
        assert hip.hipEventCreate(ctypes.byref(self.event)) == SUCCESS
        for buffer in (self.out, self.copy):
            assert hip.hipMalloc(ctypes.byref(buffer), SIZE) == SUCCESS

    def close(self) -> None:
        hip = self.hip
        hip.hipModuleUnload(self.module)
        hip.hipEventDestroy(self.event)
        for stream in (self.stream, self.other):
            hip.hipStreamDestroy(stream)
        for buffer in (self.out, self.copy):
            hip.hipFree(buffer)

    def launch(self, tag: int) -> int:
        values = (self.out, ctypes.c_uint32(tag), ctypes.c_uint16(0))
        params = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        geometry = (1, 1, 1, 64, 1, 1, 0)
        stream = self.stream
        return int(self.hip.hipModuleLaunchKernel(self.function, *geometry, stream, params, None))

    def read(self, buffer: ctypes.c_void_p) -> int:
        back = (ctypes.c_uint32 * 64)()
        assert self.hip.hipMemcpy(back, buffer, SIZE, 2) == SUCCESS
        return back[2]


@pytest.fixture
def device(hip_library: ctypes.CDLL, kernarg_dump: bytes) -> Iterator[Device]:
    made = Device(hip_library, kernarg_dump)
    yield made
    made.close()


def capture(device: Device, tag: int) -> ctypes.c_void_p:
    """Fill, kernel, then a copy on the other stream."""
    hip, graph = device.hip, ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS
    assert hip.hipMemsetAsync(device.copy, 0, SIZE, device.stream) == SUCCESS
    assert device.launch(tag) == SUCCESS
    assert hip.hipEventRecord(device.event, device.stream) == SUCCESS
    assert hip.hipStreamWaitEvent(device.other, device.event, 0) == SUCCESS
    assert hip.hipMemcpyAsync(device.copy, device.out, SIZE, 3, device.other) == SUCCESS
    join(device)
    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == SUCCESS
    return graph


def join(device: Device) -> None:
    """The capture's first stream waits for the other one."""
    assert device.hip.hipEventRecord(device.event, device.other) == SUCCESS
    assert device.hip.hipStreamWaitEvent(device.stream, device.event, 0) == SUCCESS


def test_captured_work_runs_when_the_graph_is_launched(device: Device) -> None:
    hip, executable = device.hip, ctypes.c_void_p()
    graph = capture(device, 77)
    assert (device.read(device.out), device.read(device.copy)) == (0, 0)
    assert hip.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, 0) == SUCCESS
    assert hip.hipGraphDestroy(graph) == SUCCESS

    for _ in range(2):
        hip.hipMemset(device.out, 0, SIZE)
        assert hip.hipGraphLaunch(executable, device.stream) == SUCCESS
        assert (device.read(device.out), device.read(device.copy)) == (77, 77)

    assert hip.hipGraphExecDestroy(executable) == SUCCESS
    assert hip.hipGraphLaunch(executable, device.stream) == INVALID_VALUE


def test_graph_lists_its_nodes_in_order(device: Device) -> None:
    hip, count, kind = device.hip, ctypes.c_size_t(8), ctypes.c_int()
    graph, nodes = capture(device, 1), (ctypes.c_void_p * 8)()

    assert hip.hipGraphGetNodes(graph, nodes, ctypes.byref(count)) == SUCCESS

    kinds = []
    for node in nodes[: count.value]:
        hip.hipGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kinds.append(kind.value)
    assert kinds == [NODE_FILL, NODE_KERNEL, NODE_COPY]
    assert hip.hipGraphDestroy(graph) == SUCCESS


def test_capturing_stream_says_so(device: Device) -> None:
    hip, status, graph = device.hip, ctypes.c_int(-1), ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS

    assert hip.hipStreamIsCapturing(device.stream, ctypes.byref(status)) == SUCCESS
    assert status.value == 1
    assert hip.hipStreamBeginCapture(device.stream, 0) == ILLEGAL_STATE

    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == SUCCESS
    assert hip.hipStreamIsCapturing(device.stream, ctypes.byref(status)) == SUCCESS
    assert (status.value, hip.hipStreamSynchronize(device.stream)) == (0, SUCCESS)
    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == ILLEGAL_STATE


def test_waiting_for_a_captured_stream_breaks_the_capture(device: Device) -> None:
    hip, status, graph = device.hip, ctypes.c_int(-1), ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS

    assert hip.hipStreamSynchronize(device.stream) == CAPTURE_UNSUPPORTED

    assert hip.hipStreamIsCapturing(device.stream, ctypes.byref(status)) == SUCCESS
    assert status.value == 2
    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == CAPTURE_INVALIDATED
    assert graph.value is None
    assert hip.hipStreamSynchronize(device.stream) == SUCCESS


def test_capture_with_a_branch_that_is_not_joined_fails(device: Device) -> None:
    hip, graph = device.hip, ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS
    assert hip.hipEventRecord(device.event, device.stream) == SUCCESS
    assert hip.hipStreamWaitEvent(device.other, device.event, 0) == SUCCESS
    assert hip.hipMemsetAsync(device.copy, 0, SIZE, device.other) == SUCCESS

    assert hip.hipStreamEndCapture(device.other, ctypes.byref(graph)) == UNMATCHED
    assert hip.hipEventQuery(device.event) == CAPTURED_EVENT
    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == CAPTURE_INVALIDATED

    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS
    assert hip.hipEventRecord(device.event, device.stream) == SUCCESS
    assert hip.hipStreamWaitEvent(device.other, device.event, 0) == SUCCESS
    assert hip.hipMemsetAsync(device.copy, 0, SIZE, device.other) == SUCCESS
    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == UNJOINED


def test_captured_stream_waits_for_no_outside_event(device: Device) -> None:
    hip, graph, count = device.hip, ctypes.c_void_p(), ctypes.c_size_t()
    assert hip.hipEventRecord(device.event, None) == SUCCESS
    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS

    assert hip.hipStreamWaitEvent(device.stream, device.event, 0) == ISOLATION
    assert hip.hipStreamWaitEvent(device.stream, device.event, 1) == SUCCESS  # external

    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == SUCCESS
    assert hip.hipGraphGetNodes(graph, None, ctypes.byref(count)) == SUCCESS
    assert count.value == 1
    assert hip.hipGraphDestroy(graph) == SUCCESS


def test_captured_branches_depend_on_where_they_left(device: Device) -> None:
    hip, count = device.hip, ctypes.c_size_t(8)
    graph = capture(device, 3)
    starts, ends = (ctypes.c_void_p * 8)(), (ctypes.c_void_p * 8)()
    nodes, nodes_count = (ctypes.c_void_p * 8)(), ctypes.c_size_t(8)
    hip.hipGraphGetNodes(graph, nodes, ctypes.byref(nodes_count))

    assert hip.hipGraphGetEdges(graph, starts, ends, ctypes.byref(count)) == SUCCESS

    fill, kernel, copy = nodes[:3]
    edges = list(zip(starts[: count.value], ends[: count.value], strict=True))
    assert edges == [(fill, kernel), (kernel, copy)]
    hip.hipGraphDestroy(graph)


def test_memory_of_a_captured_allocation_comes_back_with_each_launch(device: Device) -> None:
    hip, graph, executable = device.hip, ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_void_p()
    assert hip.hipStreamBeginCapture(device.stream, 0) == SUCCESS
    assert hip.hipMallocAsync(ctypes.byref(memory), SIZE, device.stream) == SUCCESS
    assert hip.hipMemsetAsync(memory, 1, SIZE, device.stream) == SUCCESS
    assert hip.hipMemcpyAsync(device.out, memory, SIZE, 3, device.stream) == SUCCESS
    assert hip.hipFreeAsync(memory, device.stream) == SUCCESS
    assert hip.hipStreamEndCapture(device.stream, ctypes.byref(graph)) == SUCCESS
    assert hip.hipMemset(memory, 0, SIZE) == INVALID_VALUE  # not there between launches
    assert hip.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, 0) == SUCCESS

    for _ in range(2):
        hip.hipMemset(device.out, 0, SIZE)
        assert hip.hipGraphLaunch(executable, device.stream) == SUCCESS
        assert device.read(device.out) == 0x01010101

    assert hip.hipMemset(memory, 0, SIZE) == INVALID_VALUE
    hip.hipGraphExecDestroy(executable)
    hip.hipGraphDestroy(graph)


def test_null_stream_cannot_be_captured(hip_library: ctypes.CDLL) -> None:
    assert hip_library.hipStreamBeginCapture(None, 0) == CAPTURE_UNSUPPORTED


def test_graph_outlives_its_module(device: Device) -> None:
    hip, executable, module = device.hip, ctypes.c_void_p(), device.module
    graph = capture(device, 5)
    hip.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, 0)

    assert hip.hipModuleUnload(module) == SUCCESS

    assert hip.hipGraphLaunch(executable, device.stream) == SUCCESS
    assert device.read(device.out) == 5
    hip.hipGraphExecDestroy(executable)
    hip.hipGraphDestroy(graph)


def test_threads_own_stream_is_captured_like_another(device: Device) -> None:
    hip, graph, count = device.hip, ctypes.c_void_p(), ctypes.c_size_t()
    own = ctypes.c_void_p(2)  # hipStreamPerThread
    assert hip.hipStreamBeginCapture(own, 0) == SUCCESS
    assert hip.hipMemsetAsync(device.out, 3, SIZE, own) == SUCCESS
    assert hip.hipMemcpyAsync(device.copy, device.out, SIZE, 3, own) == SUCCESS
    assert hip.hipStreamEndCapture(own, ctypes.byref(graph)) == SUCCESS

    assert device.read(device.out) == 0
    assert hip.hipGraphGetNodes(graph, None, ctypes.byref(count)) == SUCCESS
    assert count.value == 2
    hip.hipGraphDestroy(graph)
