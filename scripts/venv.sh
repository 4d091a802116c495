#!/bin/sh
# Makes or refreshes the virtual environment: scripts/venv.sh FOLDER
# PYTHON names the interpreter; by default the first of python3, python3.13, python3.12, python3.11 that is 3.11 or newer.
set -eu

venv=$1
root=$(cd "$(dirname "$0")/.." && pwd)

fail() {
    printf '\nerror: %s\n' "$1" >&2
    shift
    printf '  %s\n' "$@" >&2
    exit 1
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null 2>&1 || fail "there is no $PYTHON" "set PYTHON to a Python 3.11 or newer"
    new_enough "$PYTHON" || fail "$("$PYTHON" --version 2>&1) is too old: agentenvs needs Python 3.11 or newer" \
        "set PYTHON to a newer one: make PYTHON=python3.12 ..."
    python=$PYTHON
else
    python=
    for candidate in python3 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then python=$candidate; break; fi
    done
    [ -n "$python" ] || fail "no Python 3.11 or newer was found (python3 is $(python3 --version 2>&1 || echo absent))" \
        "install one (Debian 12 or newer: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python ..."
fi

if ! [ -x "$venv/bin/python" ] || ! new_enough "$venv/bin/python" || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1
then
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
        "$python cannot make a virtual environment: its module ensurepip (or venv) is missing" \
        "Debian, Ubuntu: apt install python3-venv" "Fedora: dnf install python3-pip" \
        "or name another Python: make PYTHON=/path/to/python ..."
    printf 'making %s with %s\n' "$venv" "$("$python" --version 2>&1)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

printf 'installing agentenvs and what its development needs (about a minute, once)\n'
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root[dev]" || fail \
    "the installation failed; what pip said stands above" \
    "without a network, point pip at a mirror or a folder of wheels (PIP_INDEX_URL, PIP_FIND_LINKS) and try again"
touch "$venv/.stamp"
