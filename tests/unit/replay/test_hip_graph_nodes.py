"""Graphs built node by node on the emulated device."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SUCCESS, INVALID_VALUE, ILLEGAL_STATE, UPDATE_FAILURE = 0, 1, 401, 910
KERNEL, COPY, FILL, HOST, GRAPH, EMPTY = 0, 1, 2, 3, 4, 5
SIZE = 256
HOST_TO_DEVICE, DEVICE_TO_DEVICE = 1, 3

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Handle = ctypes.c_void_p


class Dim(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in "xyz"]


class KernelParams(ctypes.Structure):
    _fields_ = [
        ("block", Dim),
        ("extra", ctypes.c_void_p),
        ("function", ctypes.c_void_p),
        ("grid", Dim),
        ("params", ctypes.POINTER(ctypes.c_void_p)),
        ("dynamic_lds", ctypes.c_uint),
    ]


class FillParams(ctypes.Structure):
    _fields_ = [
        ("to", ctypes.c_void_p),
        ("element_size", ctypes.c_uint),
        ("height", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("width", ctypes.c_size_t),
    ]


class HostParams(ctypes.Structure):
    _fields_ = [("function", HostFunction), ("data", ctypes.c_void_p)]


class Builder:
    """A graph, a buffer of 64 dwords, and what adds nodes that are easy to tell apart."""

    def __init__(self, hip: ctypes.CDLL, image: bytes) -> None:
        self.hip, self.kept = hip, list[object]()
        self.graph, self.out, self.module, self.function = (Handle() for _ in range(4))
        self.call("hipGraphCreate", ctypes.byref(self.graph), 0)
        self.call("hipMalloc", ctypes.byref(self.out), ctypes.c_size_t(SIZE))
        self.call("hipMemset", self.out, 0, ctypes.c_size_t(SIZE))
        self.call("hipModuleLoadData", ctypes.byref(self.module), image)
        name = b"kernarg_dump"
        self.call("hipModuleGetFunction", ctypes.byref(self.function), self.module, name)

    def call(self, name: str, *arguments: object, status: int = SUCCESS) -> None:
        assert getattr(self.hip, name)(*arguments) == status

    def add(self, name: str, after: Sequence[Handle], *arguments: object) -> Handle:
        node, nodes = Handle(), (Handle * max(len(after), 1))(*after)
        count = ctypes.c_size_t(len(after))
        self.call(name, ctypes.byref(node), self.graph, nodes, count, *arguments)
        return node

    def fill(self, value: int, count: int = 64) -> FillParams:
        return FillParams(self.out, 4, 1, 0, value, count)

    def add_fill(self, value: int, *after: Handle) -> Handle:
        return self.add("hipGraphAddMemsetNode", after, ctypes.byref(self.fill(value)))

    def kernel(self, tag: int) -> KernelParams:
        """kernarg_dump writes its kernarg segment to `out`: dword 2 is the tag."""
        values = (self.out, ctypes.c_uint32(tag), ctypes.c_uint16(0))
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        self.kept += [values, pointers]
        return KernelParams(Dim(64, 1, 1), None, self.function, Dim(1, 1, 1), pointers, 0)

    def add_kernel(self, tag: int, *after: Handle) -> Handle:
        return self.add("hipGraphAddKernelNode", after, ctypes.byref(self.kernel(tag)))

    def add_host(self, calls: list[int], mark: int, *after: Handle) -> Handle:
        function = HostFunction(lambda _: calls.append(mark))
        self.kept.append(function)
        params = HostParams(function, None)
        return self.add("hipGraphAddHostNode", after, ctypes.byref(params))

    def instantiate(self) -> Handle:
        executable = Handle()
        self.call("hipGraphInstantiate", ctypes.byref(executable), self.graph, None, None, 0)
        return executable

    def launch(self, executable: Handle) -> None:
        self.call("hipGraphLaunch", executable, None)

    def read(self) -> list[int]:
        back = (ctypes.c_uint32 * 64)()
        self.call("hipMemcpy", back, self.out, ctypes.c_size_t(SIZE), 2)
        return list(back)

    def nodes(self, name: str, of: Handle) -> list[int | None]:
        found, count = (Handle * 16)(), ctypes.c_size_t(16)
        self.call(name, of, found, ctypes.byref(count))
        return list(found[: count.value])

    def type(self, node: Handle) -> int:
        kind = ctypes.c_int(-1)
        self.call("hipGraphNodeGetType", node, ctypes.byref(kind))
        return kind.value


@pytest.fixture
def builder(hip_library: ctypes.CDLL, kernarg_dump: bytes) -> Iterator[Builder]:
    made = Builder(hip_library, kernarg_dump)
    yield made
    hip_library.hipGraphDestroy(made.graph)
    hip_library.hipModuleUnload(made.module)
    hip_library.hipFree(made.out)


def test_nodes_run_behind_their_dependencies_whatever_the_order_of_addition(
    builder: Builder,
) -> None:
    calls: list[int] = []
    last = builder.add_host(calls, 3)
    middle = builder.add_host(calls, 2)
    first = builder.add_host(calls, 1)
    edges = ((Handle * 2)(first, middle), (Handle * 2)(middle, last))
    builder.call("hipGraphAddDependencies", builder.graph, *edges, ctypes.c_size_t(2))

    executable = builder.instantiate()
    builder.launch(executable)
    builder.launch(executable)

    assert calls == [1, 2, 3, 1, 2, 3]
    assert builder.nodes("hipGraphGetRootNodes", builder.graph) == [first.value]
    assert builder.nodes("hipGraphNodeGetDependencies", last) == [middle.value]
    assert builder.nodes("hipGraphNodeGetDependentNodes", first) == [middle.value]
    builder.call("hipGraphExecDestroy", executable)


def test_graph_with_a_cycle_is_not_instantiated(builder: Builder) -> None:
    calls: list[int] = []
    first = builder.add_host(calls, 1)
    second = builder.add_host(calls, 2, first)
    back = ((Handle * 1)(second), (Handle * 1)(first))
    builder.call("hipGraphAddDependencies", builder.graph, *back, ctypes.c_size_t(1))
    executable, wrong = Handle(), Handle()

    arguments = (ctypes.byref(executable), builder.graph, ctypes.byref(wrong), None, 0)
    builder.call("hipGraphInstantiate", *arguments, status=INVALID_VALUE)
    assert wrong.value in (first.value, second.value)

    builder.call("hipGraphRemoveDependencies", builder.graph, *back, ctypes.c_size_t(1))
    builder.launch(builder.instantiate())
    assert calls == [1, 2]


def test_edges_that_exist_or_lead_to_themselves_are_refused(builder: Builder) -> None:
    first = builder.add_fill(1)
    second = builder.add_fill(2, first)
    one = ctypes.c_size_t(1)
    for start, end in ((first, second), (first, first), (first, Handle(64))):
        edge = ((Handle * 1)(start), (Handle * 1)(end))
        builder.call("hipGraphAddDependencies", builder.graph, *edge, one, status=INVALID_VALUE)
    edge = ((Handle * 1)(second), (Handle * 1)(first))
    builder.call("hipGraphRemoveDependencies", builder.graph, *edge, one, status=INVALID_VALUE)


def test_kernel_fill_and_copy_nodes_work_together(builder: Builder) -> None:
    values = (ctypes.c_uint32 * 64)(*range(64))
    fill = builder.add_fill(7)
    kernel = builder.add_kernel(1234, fill)
    target = Handle((builder.out.value or 0) + 128)
    size = ctypes.c_size_t(128)
    copy = builder.add("hipGraphAddMemcpyNode1D", [kernel], target, values, size, HOST_TO_DEVICE)
    kinds = [builder.type(node) for node in (fill, kernel, copy)]

    builder.launch(builder.instantiate())

    assert kinds == [FILL, KERNEL, COPY]
    assert builder.read()[2] == 1234
    assert builder.read()[32:] == list(range(32))


def test_kernel_node_gives_back_its_parameters_and_takes_new_ones(builder: Builder) -> None:
    node, got = builder.add_kernel(1), KernelParams()
    executable = builder.instantiate()

    builder.call("hipGraphKernelNodeGetParams", node, ctypes.byref(got))
    assert (got.function, got.grid.x, got.block.x) == (builder.function.value, 1, 64)
    assert ctypes.cast(got.params[1], ctypes.POINTER(ctypes.c_uint32))[0] == 1

    builder.call("hipGraphKernelNodeSetParams", node, ctypes.byref(builder.kernel(2)))
    builder.launch(executable)
    assert builder.read()[2] == 1  # as it was when instantiated
    builder.call(
        "hipGraphExecKernelNodeSetParams", executable, node, ctypes.byref(builder.kernel(3))
    )
    builder.launch(executable)
    assert builder.read()[2] == 3
    builder.launch(builder.instantiate())
    assert builder.read()[2] == 2


def test_node_takes_no_parameters_of_another_type(builder: Builder) -> None:
    node = builder.add_fill(1)
    params = ctypes.byref(builder.kernel(2))
    builder.call("hipGraphKernelNodeSetParams", node, params, status=INVALID_VALUE)


def test_switched_off_node_does_nothing_until_switched_on(builder: Builder) -> None:
    node, enabled = builder.add_fill(5), ctypes.c_uint(9)
    executable = builder.instantiate()

    builder.call("hipGraphNodeSetEnabled", executable, node, 0)
    builder.launch(executable)
    builder.call("hipGraphNodeGetEnabled", executable, node, ctypes.byref(enabled))
    assert (builder.read()[0], enabled.value) == (0, 0)

    builder.call("hipGraphNodeSetEnabled", executable, node, 1)
    builder.launch(executable)
    assert builder.read()[0] == 5


def test_child_graph_runs_in_its_place_as_it_was_when_added(builder: Builder) -> None:
    calls: list[int] = []
    outer, child = builder.graph, Handle()
    builder.call("hipGraphCreate", ctypes.byref(child), 0)
    builder.graph = child
    inner = builder.add_host(calls, 2)
    builder.graph = outer
    first = builder.add_host(calls, 1)
    node = builder.add("hipGraphAddChildGraphNode", [first], child)
    builder.add_host(calls, 3, node)
    builder.call("hipGraphDestroyNode", inner)
    builder.call("hipGraphDestroy", child)

    builder.launch(builder.instantiate())

    embedded = Handle()
    builder.call("hipGraphChildGraphNodeGetGraph", node, ctypes.byref(embedded))
    assert calls == [1, 2, 3]
    assert builder.type(node) == GRAPH
    assert len(builder.nodes("hipGraphGetNodes", embedded)) == 1
    builder.call("hipGraphDestroy", embedded, status=ILLEGAL_STATE)


def test_clone_has_nodes_of_its_own(builder: Builder) -> None:
    first = builder.add_fill(1)
    second = builder.add_fill(2, first)
    clone, twin = Handle(), Handle()
    builder.call("hipGraphClone", ctypes.byref(clone), builder.graph)

    builder.call("hipGraphNodeFindInClone", ctypes.byref(twin), second, clone)
    builder.call("hipGraphDestroyNode", second)

    assert twin.value in builder.nodes("hipGraphGetNodes", clone)
    assert len(builder.nodes("hipGraphGetNodes", clone)) == 2
    assert builder.nodes("hipGraphGetNodes", builder.graph) == [first.value]
    builder.call("hipGraphDestroy", clone)
    builder.call("hipGraphDestroy", clone, status=ILLEGAL_STATE)


def test_executable_graph_takes_another_graphs_parameters_if_it_has_the_same_shape(
    builder: Builder,
) -> None:
    first = builder.add_fill(1)
    builder.add_kernel(10, first)
    executable, wrong, result = builder.instantiate(), Handle(), ctypes.c_int(-1)
    builder.call("hipGraphDestroy", builder.graph)
    builder.call("hipGraphCreate", ctypes.byref(builder.graph), 0)
    first = builder.add_fill(2)
    kernel = builder.add_kernel(20, first)
    arguments = (executable, builder.graph, ctypes.byref(wrong), ctypes.byref(result))

    builder.call("hipGraphExecUpdate", *arguments)
    builder.launch(executable)
    assert (result.value, builder.read()[2]) == (0, 20)

    edge = ((Handle * 1)(first), (Handle * 1)(kernel))
    builder.call("hipGraphRemoveDependencies", builder.graph, *edge, ctypes.c_size_t(1))
    builder.call("hipGraphExecUpdate", *arguments, status=UPDATE_FAILURE)
    assert (result.value, wrong.value) == (2, kernel.value)  # topology changed
    builder.add_fill(3)
    builder.call("hipGraphExecUpdate", *arguments, status=UPDATE_FAILURE)
    assert result.value == 2


def test_record_node_records_its_event_with_each_launch(builder: Builder) -> None:
    event, milliseconds = Handle(), ctypes.c_float(-1)
    builder.call("hipEventCreate", ctypes.byref(event))
    node = builder.add("hipGraphAddEventRecordNode", [], event)
    builder.add("hipGraphAddEventWaitNode", [node], event)
    executable = builder.instantiate()
    elapsed = (ctypes.byref(milliseconds), event, event)
    builder.call("hipEventElapsedTime", *elapsed, status=400)

    builder.launch(executable)

    builder.call("hipEventElapsedTime", *elapsed)
    assert milliseconds.value == 0
    builder.call("hipEventDestroy", event)


def test_user_object_is_destroyed_with_the_last_graph_that_holds_it(builder: Builder) -> None:
    destroyed: list[int] = []
    function = HostFunction(destroyed.append)
    made, clone = Handle(), Handle()
    builder.call("hipUserObjectCreate", ctypes.byref(made), Handle(77), function, 1, 1)
    builder.call("hipGraphRetainUserObject", builder.graph, made, 1, 1)  # moved
    builder.call("hipGraphClone", ctypes.byref(clone), builder.graph)

    builder.call("hipGraphDestroy", builder.graph)
    assert destroyed == []
    builder.call("hipGraphDestroy", clone)
    assert destroyed == [77]
    builder.call("hipGraphCreate", ctypes.byref(builder.graph), 0)


def test_stream_is_captured_into_an_existing_graph(builder: Builder) -> None:
    stream, nodes = Handle(), (Handle * 1)(builder.add_fill(1))
    builder.call("hipStreamCreate", ctypes.byref(stream))
    one = ctypes.c_size_t(1)
    begin = (stream, builder.graph, nodes, None, one, 0)
    builder.call("hipStreamBeginCaptureToGraph", *begin)
    builder.call("hipMemsetD32Async", builder.out, 9, one, stream)
    target, graph = Handle((builder.out.value or 0) + 8), Handle()
    size = ctypes.c_size_t(8)
    builder.call("hipMemcpyAsync", target, builder.out, size, DEVICE_TO_DEVICE, stream)
    builder.call("hipStreamEndCapture", stream, ctypes.byref(graph))

    builder.launch(builder.instantiate())

    assert graph.value == builder.graph.value
    assert builder.read()[:4] == [9, 1, 9, 1]
    builder.call("hipStreamDestroy", stream)


def test_dot_file_names_nodes_and_edges(builder: Builder, tmp_path: Path) -> None:
    builder.add_kernel(1, builder.add_fill(1))
    path = tmp_path / "graph.dot"

    builder.call("hipGraphDebugDotPrint", builder.graph, str(path).encode(), 0)

    text = path.read_text()
    assert "n1: kernel\\nkernarg_dump" in text
    assert "n0 -> n1;" in text


def test_handles_that_are_none_are_refused(builder: Builder) -> None:
    node, count = builder.add_fill(1), ctypes.c_size_t(0)
    builder.call("hipGraphDestroyNode", node)
    builder.call("hipGraphDestroyNode", node, status=INVALID_VALUE)
    stale = (ctypes.byref(Handle()), builder.graph, (Handle * 1)(node), ctypes.c_size_t(1))
    builder.call("hipGraphAddEmptyNode", *stale, status=INVALID_VALUE)
    builder.call("hipGraphGetNodes", node, None, ctypes.byref(count), status=INVALID_VALUE)
    builder.call("hipGraphExecDestroy", builder.graph, status=INVALID_VALUE)


def test_fill_beyond_its_allocation_is_refused_when_added(builder: Builder) -> None:
    node, params = Handle(), builder.fill(1, 65)
    beyond = (ctypes.byref(node), builder.graph, None, ctypes.c_size_t(0), ctypes.byref(params))
    builder.call("hipGraphAddMemsetNode", *beyond, status=INVALID_VALUE)
