#!/usr/bin/env bash
# openapi-gate.sh BASE REVISION fails if clients of the OpenAPI document BASE can break on REVISION. An
# operation may be removed after its x-sunset, which must be a year or more after the notice.
set -euo pipefail
go tool -modfile="$(dirname "$0")/go.mod" oasdiff breaking --fail-on WARN --deprecation-days-stable 365 "$1" "$2"
