#!/bin/sh
# Makes .venv what requirements.txt and pyproject.toml say, and does nothing where it already is.
# Every package is checked against its hash. Needs python3 with its venv module, nothing else.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 2; }

wanted=$(cat requirements.txt pyproject.toml ops/setup.sh | sha256sum | cut -d' ' -f1)
if [ -x .venv/bin/milena ] && [ "$(cat .venv/.stamp 2>/dev/null || true)" = "$wanted" ]; then
    exit 0
fi

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ ! -x .venv/bin/python ]; then
    python=
    for name in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if fits "$name"; then python=$name; break; fi
    done
    [ -n "$python" ] || fail "no Python 3.11 or newer found: install it, or set PYTHON to one"
    say "making .venv with $("$python" --version)"
    "$python" -m venv .venv >/dev/null 2>&1 || {
        rm -rf .venv
        fail "$python cannot make a venv: install its venv module (Debian: apt-get install python3-venv)"
    }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -x .venv/bin/uv ]; then
    say "installing uv"
    # Its pin is the block of requirements.txt that begins with its name.
    awk '/^[a-zA-Z0-9]/ { own = /^uv==/ } own' requirements.txt > "$work/uv.txt"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
        -r "$work/uv.txt" || fail "uv could not be installed: check the network and run it again"
fi

say "installing the pinned packages"
VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --quiet --require-hashes --no-deps \
    -r requirements.txt || fail "the packages could not be installed: see above, then run it again"
VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --quiet --no-deps --no-build-isolation \
    --editable . || fail "the project itself could not be installed: see above"
printf '%s\n' "$wanted" > .venv/.stamp
say "done"
