#!/usr/bin/env bash
# cover.sh MINIMUM FOLDER... fails if the tests in a folder and its subfolders cover less than MINIMUM percent of its statements. Tests
# of other folders are not counted.
set -euo pipefail
cd "$(dirname "$0")/.."

minimum=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

failed=0
for folder in "$@"; do
  if ! go test -short -vet=off -timeout=3m -coverpkg="./$folder/..." -coverprofile="$work/profile" "./$folder/..." >"$work/log" 2>&1; then
    cat "$work/log"
    exit 1
  fi
  covered=$(go tool cover -func="$work/profile" | awk '/^total:/ { sub("%", "", $3); print $3 }')
  verdict=ok
  if awk "BEGIN { exit !($covered < $minimum) }"; then
    verdict="below $minimum %"
    failed=1
  fi
  printf '%-16s %5s %%  %s\n' "$folder" "$covered" "$verdict"
done
exit "$failed"
