"""The accounts machine with small limits: quota 3 a window, 2 slots; 6 and 3 for the paid tier."""

from typing import Final

from processors.admission.machine import accounts_machine
from processors.admission.settings import AccountsSettings

PLANS: Final = AccountsSettings(messages_max_free=3, messages_max_paid=6).plans()
ACCOUNTS: Final = accounts_machine(PLANS)
WINDOW_S: Final = 10_800
DAY_S: Final = 86_400
