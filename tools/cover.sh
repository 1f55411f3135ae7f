#!/usr/bin/env bash
# cover.sh MINIMUM TIMEOUT FOLDER... fails if the tests in a folder and its subfolders cover less
# than MINIMUM percent of its statements, or if those of a package need more than TIMEOUT. Tests of
# other folders are not counted.
set -euo pipefail
cd "$(dirname "$0")/.."

minimum=$1 timeout=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# cover FOLDER prints how much of the folder its tests cover, or their output if they fail.
cover() {
  local files=$work/$1 covered verdict=ok packages
  packages=$(go list "./$1/..." | grep -vE 'test(kit)?(/|$)' | paste -sd, -) # without helpers of tests
  mkdir -p "$files"
  if ! go test -short -vet=off -timeout="$timeout" -coverpkg="$packages" -coverprofile="$files/profile" "./$1/..." >"$files/log" 2>&1; then
    cat "$files/log"
    return 1
  fi
  covered=$(go tool cover -func="$files/profile" | awk '/^total:/ { sub("%", "", $3); print $3 }')
  if awk "BEGIN { exit !($covered < $minimum) }"; then
    verdict="below $minimum %"
  fi
  printf '%-16s %5s %%  %s\n' "$1" "$covered" "$verdict"
  [ "$verdict" = ok ]
}

jobs=()
for folder in "$@"; do # side by side, because tests wait much of the time
  cover "$folder" &
  jobs+=($!)
done
failed=0
for job in "${jobs[@]}"; do
  wait "$job" || failed=1
done
exit "$failed"
