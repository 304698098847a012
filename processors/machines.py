"""Which machines there are and how each is made from the environment. Owns the list; folds nothing."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from processors.admission.machine import accounts_machine
from processors.admission.settings import AccountsSettings
from processors.machine import Machine
from processors.metering.machine import metering_machine
from processors.runs.machine import runs_machine
from processors.workers.machine import workers_machine
from topics.runtime import settings

Make = Callable[[Mapping[str, str]], Machine[Any]]


def _accounts(env: Mapping[str, str]) -> Machine[Any]:
    return accounts_machine(settings.read(AccountsSettings, "ACCOUNTS", env).plans())


MACHINES: Final[dict[str, Make]] = {
    "accounts": _accounts,
    "runs": lambda _: runs_machine(),
    "workers": lambda _: workers_machine(),
    "metering": lambda _: metering_machine(),
}
