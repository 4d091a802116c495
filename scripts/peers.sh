#!/bin/sh
# Installs the software of others that tests play with, each in an environment of its own, since most cannot share one:
#     scripts/peers.sh FOLDER [NAME ...]
# Prints the lines that tell tests where they are: eval "$(scripts/peers.sh .venvs/peers)"
# PYTHON names the interpreter, 3.11 by default where there is one. uv installs in seconds what takes pip minutes.
set -eu

folder=$1
shift
python=${PYTHON:-$(command -v python3.11 || command -v python3)}

# name, the variable that tests read, what is installed
table='
openenv      AGENTENVS_PEER_PYTHON       openenv==0.10.0
openenv-core AGENTENVS_PEER_OPENENV_CORE openenv-core==0.3.0
openreward   AGENTENVS_PEER_ORS          openreward==0.1.167
mcp          AGENTENVS_PEER_MCP          mcp>=2,<3
'

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

uv=$(command -v uv || echo "$folder/uv/bin/uv")
if ! [ -x "$uv" ]; then
    "$python" -m venv "$folder/uv" >&2
    "$folder/uv/bin/python" -m pip install -q --disable-pip-version-check uv >&2
fi

printf '%s\n' "$table" | while read -r name variable packages; do
    [ -n "$name" ] || continue
    if [ $# -gt 0 ]; then case " $* " in *" $name "*) ;; *) continue ;; esac; fi
    venv=$folder/$name
    if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$packages" ]; then
        printf 'installing %s\n' "$packages" >&2
        rm -rf "$venv"
        "$uv" venv -q --seed --python "$python" "$venv" >&2
        # shellcheck disable=SC2086 - several packages are several words
        "$uv" pip install -q --python "$venv/bin/python" $packages >&2
        printf '%s\n' "$packages" >"$venv/.installed"
    fi
    printf 'export %s=%s\n' "$variable" "$venv/bin/python"
done
