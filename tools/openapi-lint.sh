#!/usr/bin/env bash
# openapi-lint.sh DOCUMENT fails if Spectral or Redocly reports anything about an OpenAPI document, with the
# rules in gateway/openapi.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
programs=$root/tools/npm/node_modules/.bin
rules=$root/gateway/openapi

export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
status=0
"$programs/spectral" lint --quiet --fail-severity=hint --ruleset "$rules/.spectral.yaml" "$1" || status=1
if ! report=$("$programs/redocly" lint --config "$rules/redocly.yaml" "$1" 2>&1); then # it reports its own success in many lines
  printf '%s\n' "$report"
  status=1
fi
exit "$status"
