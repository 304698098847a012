"""A real nginx in front of an edge, with its default buffering and gzip on: what a careless operator has.

Installed through apt where it is missing, as the local stack does with Redis; a machine that may not
install says so by a failing test, never by a skipped one.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S_MAX = 20.0
CONFIG = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  gzip on;
  gzip_proxied any;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; }}
  }}
}}
"""


@contextmanager
def nginx_before(upstream: str, folder: Path) -> Iterator[str]:
    """Its address while it runs."""
    binary = _binary()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, port=port, upstream=upstream), encoding="utf-8")
    process = subprocess.Popen([binary, "-e", str(folder / "error.log"), "-c", str(config)])
    try:
        _await_port(process, port, folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _await_port(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while True:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        log = folder / "error.log"
        said = log.read_text(encoding="utf-8") if log.exists() else ""
        assert process.poll() is None, f"nginx ended: {said}"
        assert time.monotonic() < deadline, f"nginx does not listen: {said}"
        time.sleep(0.05)


def _binary() -> str:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    found = shutil.which("nginx", path=path)
    if found is None:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=60", "install", "nginx-light"]
        if subprocess.run(install, env=env, check=False, timeout=300).returncode != 0:
            # A machine whose package lists were never read knows no package at all.
            subprocess.run(["apt-get", "-q", "update"], env=env, check=False, timeout=300)
            subprocess.run(install, env=env, check=False, timeout=300)
        found = shutil.which("nginx", path=path)
    assert found is not None, "nginx is missing: apt-get install nginx-light"
    return found
