"""The accounts machine: admission and settlement as one fold over one `Account`, keyed by user."""

from collections.abc import Callable

from processors.admission import fold as admission
from processors.admission.plans import Plans
from processors.admission.state import Account
from processors.machine import Event, Machine, Outputs
from processors.outputs import reply
from processors.settlement import fold as settlement
from schemas.generated.types import (
    AccountsInbox,
    Code,
    Consume,
    Due,
    Query,
    Refused,
    Release,
    Settle,
    Submit,
)
from topics.errors import NotSupported
from topics.registry import ACCOUNTS_INBOX

Fold = Callable[[Account | None, Event], tuple[Account | None, Outputs]]


def accounts_machine(plans: Plans) -> Machine[Account]:
    """The machine under these plans, which are part of the fold: they never change while it runs."""
    return Machine(
        name="accounts",
        inbox=ACCOUNTS_INBOX,
        envelope=AccountsInbox,
        state=Account,
        fold=_fold_under(plans),
        next_deadline=Account.next_deadline_ms,
        over_cap=over_cap,
    )


def over_cap(event: Event) -> Outputs:
    """An account at its size limit takes no new request; what it has may end."""
    if not isinstance(event.body, Submit):
        return ()
    refused = Refused(code=Code.QUOTA_SERVICE_UNAVAILABLE, retryable=True)
    return (reply(event.body.reply_partition, event.body.request_id, refused),)


def _fold_under(plans: Plans) -> Fold:
    def fold(state: Account | None, event: Event) -> tuple[Account | None, Outputs]:
        account = Account() if state is None else state
        match event.body:
            case Submit():
                return admission.submit(plans, account, event, event.body)
            case Consume():
                after, outputs = settlement.consume(plans, account, event, event.body)
            case Release():
                after, outputs = settlement.release(plans, account, event, event.body)
            case Settle():
                after, outputs = settlement.settle(plans, account, event, event.body)
            case Query():
                return state, admission.query(plans, account, event, event.body)
            case Due():
                return account.expired(event.append_ms), ()
            case _:
                raise NotSupported(type(event.body).__name__)
        # A void event makes no account out of a key that has none.
        return (state if after is account else after), outputs

    return fold
