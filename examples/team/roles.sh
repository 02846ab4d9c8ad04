#!/bin/sh
# Run once, when the database is created: the role of the proxies, which owns nothing.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 --set password="$EBB_PROXY_PASSWORD" <<'SQL'
CREATE ROLE ebb_proxy LOGIN PASSWORD :'password';
SQL
