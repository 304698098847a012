"""A further edge beside a stack: its own ports and replies; and no stack where none runs."""

from pathlib import Path

import pytest

from edge.settings import EdgeSettings, reply_partition
from ops.stack.beside import free_ports, says_ready
from ops.stack.fresh import DidNotCome, FreshStack
from ops.stack.second_edge import FIRST_NAME, SecondEdge
from topics.registry import EDGES
from topics.runtime.settings import read


def test_its_ports_and_replies_are_its_own(tmp_path: Path) -> None:
    env = {"MILENA_DATA": str(tmp_path), "MILENA_PORT_BASE": "31000"}
    partitions = EDGES.partitions(local=True)
    replies = {reply_partition(EdgeSettings(), FIRST_NAME, partitions)}
    for number in range(1, partitions):
        edge = SecondEdge(env, number, {"MILENA_EDGE_KEEP_ALIVE_S": "1"}, tmp_path)
        assert edge.port != edge.operator_port
        told = read(EdgeSettings, "EDGE", edge.env)
        assert (told.port, told.operator_port) == (edge.port, edge.operator_port)
        assert told.keep_alive_s == 1
        replies.add(reply_partition(told, f"edge-{number}", partitions))
    assert len(replies) == partitions, "no two edges share their replies"


def test_one_that_was_not_started_is_not_ready_and_stops_at_once(tmp_path: Path) -> None:
    edge = SecondEdge({"MILENA_DATA": str(tmp_path)}, 1, {}, tmp_path)
    assert (edge.running, edge.ready, edge.stop()) == (False, False, 0)
    assert not says_ready(free_ports(1)[0])


def test_nothing_is_attached_to_where_no_stack_runs(tmp_path: Path) -> None:
    with pytest.raises(DidNotCome, match="milena up"):
        FreshStack.attach(tmp_path)
