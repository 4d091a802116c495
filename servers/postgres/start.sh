#!/bin/sh
# Makes the cluster where there is none yet, and the databases that are missing; then PostgreSQL takes its place.
# The servers' role owns its databases and may do nothing else; the superuser can be had inside of the container alone.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
data=/data/cluster

alone() { postgres --single -D "$1" -c log_min_messages=fatal postgres >/dev/null 2>&1; }

case ${POSTGRES_PASSWORD:-} in
'') echo "POSTGRES_PASSWORD is not set: the servers need one to reach this journal" >&2; exit 2 ;;
*[!A-Za-z0-9_-]*) echo "POSTGRES_PASSWORD stands in a URL: letters, digits, _ and - alone" >&2; exit 2 ;;
esac
if [ ! -s "$data/PG_VERSION" ]; then
    rm -rf "$data.new"
    initdb --pgdata "$data.new" --username postgres --auth-local trust --auth-host reject --encoding UTF8 --locale C \
        >/dev/null
    echo "host all agentenvs all scram-sha-256" >"$data.new/pg_hba.conf"
    echo "local all all trust" >>"$data.new/pg_hba.conf"
    echo "CREATE ROLE agentenvs LOGIN" | alone "$data.new"
    mv "$data.new" "$data"
fi
rm -f "$data/postmaster.pid"   # of a container that was killed; nobody else has this folder
echo "ALTER ROLE agentenvs PASSWORD '$POSTGRES_PASSWORD'" | alone "$data"   # it may be another than the last time
for name in $AGENTENVS_DATABASES; do
    echo "CREATE DATABASE $name OWNER agentenvs" | alone "$data"   # one that is there already stays as it is
done
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp -c max_connections=200 \
    -c shared_buffers=64MB -c logging_collector=off
