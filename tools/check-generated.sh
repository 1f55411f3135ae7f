#!/usr/bin/env bash
# Checks that the generated files in the working tree are current: in a copy of the tree it removes all generated Go files, runs the steps
# of `make generate`, and compares these files, the OpenAPI document, its pages and its clients, the README and the pages of keys and metrics,
# which have generated tables, the HTML of the runbooks, and the generated files of the chart.
set -euo pipefail
cd "$(dirname "$0")/.."

chart=deploy/helm/opsgate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/committed" "$work/generated"

# move_generated FROM TO moves all generated Go files, with their folders, and copies the other files that `make generate` writes.
move_generated() {
  local list
  (cd "$1" && tar -cf - README.md docs/operate/configuration.md docs/operate/metrics.md gateway/openapi/openapi.yaml \
    gateway/apidocs/pages.json.gz tools/clients/*/opsgate*client/operations.* cmd/internal/gate/admin/console/runbooks \
    "$chart/values.schema.json" "$chart/files/restart-keys.yaml") | tar -xf - -C "$2"
  list=$(cd "$1" && grep -rlE --include='*.go' '^// Code generated .* DO NOT EDIT\.$' . || true)
  [ -n "$list" ] || return 0
  (cd "$1" && tar -cf - -T - <<<"$list") | tar -xf - -C "$2"
  (cd "$1" && xargs rm <<<"$list")
}

git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
  if [ -e "$file" ]; then printf '%s\n' "$file"; fi # skips files that are deleted but not committed
done | tar -cf - -T - | tar -xf - -C "$work/tree"

move_generated "$work/tree" "$work/committed"
"$work/tree/tools/generate.sh" here
move_generated "$work/tree" "$work/generated"

cd "$work"
if ! diff -ru committed generated; then
  echo "generated files are not current: run 'make generate'" >&2
  exit 1
fi
