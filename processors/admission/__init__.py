"""Accounts, first half: who may start a generation. With `settlement` one fold over one `Account`."""
