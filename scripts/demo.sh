#!/bin/sh
# The demonstration: a server, three players that play on it over HTTP, a table, and a report with pictures.
# usage: sh scripts/demo.sh BIN OUT [options of the games, such as --data DIR]
set -eu

agentenvs=$1/agentenvs
out=$2
shift 2
split=dev
if [ $# -gt 0 ]; then split=valid_seen; fi

rm -rf "$out"
mkdir -p "$out"
"$agentenvs" serve household --port 0 --url-file "$out/url" "$@" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
while [ ! -s "$out/url" ]; do
    kill -0 $server 2>/dev/null || exit 1
    sleep 0.1
done

for policy in oracle expert random; do
    "$agentenvs" eval household --policy $policy --split $split --episodes 60 --concurrency 8 \
        --url "$(cat "$out/url")" --out "$out/$policy" --quiet "$@"
    printf '\n'
done
"$agentenvs" compare "$out/oracle" "$out/expert" "$out/random" --html "$out/comparison.html"
"$agentenvs" report "$out/oracle" "$out/expert" "$out/random" --html "$out/report.html"

cat <<NEXT

The report with pictures is $out/report.html, the comparison $out/comparison.html. What to try next:
  agentenvs play household                                   play one yourself
  agentenvs serve household                                  a server of your own; its routes are at /docs
  agentenvs eval household --policy exec:'python agent.py'   your own program as the player
  agentenvs check household                                  see what this environment promises, and that it holds
NEXT
