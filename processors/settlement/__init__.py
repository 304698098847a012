"""Accounts, second half: how a hold ends. With `admission` one fold over one `Account`."""
