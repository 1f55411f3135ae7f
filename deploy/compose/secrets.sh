#!/bin/sh
# Creates the missing secrets of compose.yaml in the folder secrets next to this file.
#
# Containers see the files with their permissions here, as a user that does not exist here. So the
# files are world-readable, and the folder is private.
set -eu
cd "$(dirname "$0")"

mkdir -p secrets
chmod 700 secrets
for name in admin_token metrics_token redis_password grafana_password; do
  if [ ! -s "secrets/$name" ]; then
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"secrets/$name"
    chmod 444 "secrets/$name"
  fi
done
