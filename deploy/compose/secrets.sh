#!/bin/sh
# Makes the secrets of compose.yaml, those that are not there yet, in the folder secrets beside this file.
#
# A container sees a secret's file with the rights that it has here, and its user is none of this machine's: so the files are readable,
# and the folder is not.
set -eu
cd "$(dirname "$0")"

mkdir -p secrets
chmod 700 secrets
for name in admin_token redis_password grafana_password; do
  if [ ! -s "secrets/$name" ]; then
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"secrets/$name"
    chmod 444 "secrets/$name"
  fi
done
