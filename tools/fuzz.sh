#!/usr/bin/env bash
# fuzz.sh TIME runs every fuzz target of the main module for TIME, one after the other, and goes on after a failure, so that
# one run tells all.
set -euo pipefail
cd "$(dirname "$0")/.."

time=$1
failed=()
while IFS=: read -r file target; do
  folder=$(dirname "$file")
  echo "== $target in $folder for $time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$folder" || failed+=("$target in $folder")
done < <(git ls-files --cached --others --exclude-standard '*_test.go' |
  xargs grep -oHE '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //')

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
