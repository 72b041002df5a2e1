"""Graphs, through the resident library on the stub."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from hot_path_target import Target, arm, contents, controller

from asmevo.capture.control_block import RecordStatus, State

NODES, BYTES = 3, 4096
INSTANTIATE: dict[str, Callable[[Target, Any, Any], int]] = {
    "plain": lambda t, exec_, graph: int(
        t.hip.hipGraphInstantiate(ctypes.byref(exec_), graph, None, None, ctypes.c_size_t(0))
    ),
    "flags": lambda t, exec_, graph: int(
        t.hip.hipGraphInstantiateWithFlags(ctypes.byref(exec_), graph, ctypes.c_ulonglong(0))
    ),
}


class Graph:
    """Node i adds one to what node i - 1 has written."""

    def __init__(self, target: Target, *, host_from: int = NODES, how: str = "plain") -> None:
        self.target = target
        target.hip.stub_make_graph.restype = ctypes.c_void_p
        target.hip.stub_graph_launches.restype = ctypes.c_uint64
        self.memory = target.allocate(bytes((NODES + 1) * BYTES))
        self.graph = ctypes.c_void_p(
            target.hip.stub_make_graph(
                target.function, NODES, ctypes.c_void_p(self.memory), BYTES, host_from
            )
        )
        self.exec = ctypes.c_void_p()
        assert INSTANTIATE[how](target, self.exec, self.graph) == 0

    def launch(self) -> list[int]:
        """The first byte of each piece of memory afterwards."""
        ctypes.memset(self.memory + BYTES, 0xEE, NODES * BYTES)
        assert self.target.hip.hipGraphLaunch(self.exec, None) == 0
        return [ctypes.string_at(self.memory + i * BYTES, 1)[0] for i in range(NODES + 1)]

    @property
    def runtime_launches(self) -> int:
        return int(self.target.hip.stub_graph_launches())


@pytest.mark.parametrize("how", sorted(INSTANTIATE))
def test_first_wanted_node_is_captured_between_the_others(target: Target, how: str) -> None:
    block = target.open("add_one")
    block.fields.takes_graphs = 1
    graph = Graph(target, how=how)
    arm(block)

    with controller(block):
        assert graph.launch() == [0, 1, 2, 3]

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    node = record.graph_node
    assert (record.launch_slot, node in range(NODES)) == (166, True)
    before, after = contents(target, record)[0]
    done = [*range(NODES + 1)]
    assert [before[i * BYTES] for i in done] == [*done[: node + 1], *[0xEE] * (NODES - node)]
    assert [after[i * BYTES] for i in done] == [*done[: node + 2], *[0xEE] * (NODES - node - 1)]
    assert graph.launch() == [0, 1, 2, 3]  # whole again: the record is taken
    arm(block)
    assert graph.launch() == [0, 1, 2, 3]
    assert record.graph_node == (node + 1) % NODES  # each in its turn


def test_nodes_are_counted_and_a_graph_of_before_is_said_to_be_unknown(target: Target) -> None:
    old = Graph(target)
    block = target.open("add_one")
    new = Graph(target)
    block.set_state(State.COUNTING)

    assert old.launch() == [0, 1, 2, 3]
    for _ in range(2):
        assert new.launch() == [0, 1, 2, 3]

    counted = dict(block.statistics())["add_one"]
    assert (counted.launches, counted.graph_launches) == (0, 2 * NODES)
    assert (block.fields.graph_launches, block.fields.unknown_graph_launches) == (3, 1)


@pytest.mark.parametrize(
    ("takes_graphs", "host_from"), [(0, NODES), (1, 1)], ids=["not asked", "has a host node"]
)
def test_graph_that_is_not_divided_is_launched_once(
    target: Target, takes_graphs: int, host_from: int
) -> None:
    block = target.open("add_one")
    block.fields.takes_graphs = takes_graphs
    graph = Graph(target, host_from=host_from)
    arm(block)
    launches = graph.runtime_launches

    assert graph.launch() == [0, 1, 2, 3]

    assert graph.runtime_launches == launches + 1
    assert block.state is State.ARMED


def test_graph_destroyed_after_instantiation_is_captured_and_destroyed_later(
    target: Target,
) -> None:
    block = target.open("add_one")
    block.fields.takes_graphs = 1
    graph = Graph(target)
    assert target.hip.hipGraphDestroy(graph.graph) == 0
    arm(block)

    with controller(block):
        assert graph.launch() == [0, 1, 2, 3]
    is_put_off = not target.hip.stub_is_graph_destroyed(graph.graph)
    assert target.agent.asmevo_capture_close() == 0

    assert block.fields.record.status == RecordStatus.CAPTURED
    assert is_put_off
    assert target.hip.stub_is_graph_destroyed(graph.graph)
    assert graph.launch() == [0, 1, 2, 3]
