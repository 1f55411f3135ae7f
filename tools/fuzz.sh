#!/usr/bin/env bash
# fuzz.sh TIME runs every fuzz target of the main module for TIME, one after the other. It continues
# after a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

time=$1
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# fuzz runs one target. New inputs are minimized at most 100 times; the default is one minute each.
# Up to Go 1.26 the end of the time may be reported as a failure without an input
# (go.dev/issue/75804), which is ignored.
fuzz() {
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 100x "./$1" 2>&1 | tee "$output" && return
  grep -qx '    context deadline exceeded' "$output" && ! grep -q 'Failing input written to' "$output"
}

failed=()
while IFS=: read -r file target; do
  folder=$(dirname "$file")
  echo "== $target in $folder for $time"
  fuzz "$folder" "$target" || failed+=("$target in $folder")
done < <(git ls-files --cached --others --exclude-standard '*_test.go' |
  xargs grep -oHE '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //')

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
