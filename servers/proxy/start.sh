#!/bin/sh
# Puts the servers' addresses into nginx.conf, and becomes nginx. Writes to /tmp alone.
set -eu
: "${SERVER_01:?the address of the server with --route 01}" "${SERVER_02:?the address of the server with --route 02}"
sed -e "s/10\.0\.0\.1:/$SERVER_01:/" -e "s/10\.0\.0\.2:/$SERVER_02:/" /etc/nginx/agentenvs.conf >/tmp/agentenvs.conf
cat >/tmp/nginx.conf <<'CONF'
worker_processes auto;
pid /tmp/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    include /tmp/agentenvs.conf;
}
CONF
exec nginx -e stderr -c /tmp/nginx.conf -g 'daemon off;'
