#!/bin/sh
# Makes the locks of the image anew, or says whether they are stale: servers/image/lock.sh [--check]
#
# requirements.lock has what `pip install agentenvs[mcp,postgres]` needs on Linux with Python 3.11, build.lock what makes
# the wheel. The first line of each is a digest of what it was made from. `--check` compares that, and needs no network.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

asked() {  # what a lock is made from: build | requirements
    "$python" - "$1" <<'PY'
import hashlib, sys, tomllib
with open("pyproject.toml", "rb") as file:
    form = tomllib.load(file)
project = form["project"]
asked = {
    "build": form["build-system"]["requires"],
    "requirements": [
        *project["dependencies"],
        *(line for extra in ("mcp", "postgres") for line in project["optional-dependencies"][extra]),
    ],
}[sys.argv[1]]
text = "\n".join(sorted(asked))
print(f"# made from {hashlib.sha256(text.encode()).hexdigest()}")
print(text)
PY
}

stale=0
for name in build requirements; do
    lock=servers/image/$name.lock
    asked=$(asked $name)
    wanted=$(printf '%s\n' "$asked" | sed -n 1p)
    if [ "${1:-}" = --check ]; then
        if [ "$(head -n 1 "$lock" 2>/dev/null)" != "$wanted" ]; then
            echo "$lock is stale: pyproject.toml asks for something else; run servers/image/lock.sh" >&2
            stale=1
        fi
    else
        command -v uv >/dev/null || { echo "needs uv: pip install uv" >&2; exit 2; }
        made=$(mktemp)
        printf '%s\n' "$asked" | sed 1d | uv pip compile --quiet --generate-hashes --only-binary :all: --no-header --no-emit-index-url \
            --no-annotate --python-version 3.11 --python-platform linux - -o "$made"
        { echo "$wanted"; cat "$made"; } >"$lock"
        rm -f "$made"
        echo "$lock: $(grep -c '==' "$lock") packages"
    fi
done
exit $stale
