"""What holds for every machine alike, on the logs of each."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from processors.machine import Machine
from processors.machines import MACHINES
from processors.places import NAMED
from tests.processors import laws
from tests.processors.logs import Logs, account_logs, metering_logs, run_logs, worker_logs
from topics.registry import MACHINE_INBOXES

LOGS: dict[str, Logs] = {
    "accounts": account_logs(),
    "runs": run_logs(),
    "workers": worker_logs(),
    "metering": metering_logs(),
}


@pytest.fixture(params=LOGS)
def machine(request: pytest.FixtureRequest) -> Machine[Any]:
    return MACHINES[request.param]({})


def test_it_is_declared_as_the_registry_says(machine: Machine[Any]) -> None:
    assert machine.inbox is MACHINE_INBOXES[machine.name]
    assert machine.inbox.record == machine.envelope.__name__


def test_every_partition_that_its_events_may_name_is_checked(machine: Machine[Any]) -> None:
    (body,) = (field for field in msgspec.structs.fields(machine.envelope) if field.name == "body")
    named = {
        field.name
        for branch in get_args(body.type)
        for field in msgspec.structs.fields(branch)
        if field.name.endswith(("partition", "hint"))
    }
    assert named <= NAMED.keys()


@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_it_tells_fits_the_wire(machine: Machine[Any], data: st.DataObject) -> None:
    laws.law_wire(machine, data.draw(LOGS[machine.name]))
