"""The `milena` command: one file a group of commands."""
