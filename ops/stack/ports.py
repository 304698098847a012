"""Looks whether a loopback port is free and, where it is not, who has it."""

from __future__ import annotations

import errno
import socket

import psutil

from ops.stack.probes import HOST


def taken(port: int) -> bool:
    """True when nothing of ours could listen there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections are only lingering is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return True
            raise
    return False


def holder(port: int) -> str:
    """The process that listens there, as far as this user may see it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status != psutil.CONN_LISTEN or not connection.pid:
                continue
            if connection.laddr[1:2] == (port,):
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except (psutil.Error, OSError):
        pass
    return "another program"
