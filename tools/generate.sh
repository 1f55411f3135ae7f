#!/usr/bin/env bash
# generate.sh generates all generated files, in a copy of the tree, and moves them to the tree only when every step has succeeded.
# generate.sh here runs the steps in the tree itself; check-generated.sh does so in a copy of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

tool() { go tool -modfile="$PWD/tools/go.mod" "$@"; }

# run runs a generator of ours. Without -trimpath, Go would compile it anew in each copy of the tree.
run() { go run -trimpath "$@"; }

# table writes a generated table of a document, or a file, by the test that checks it.
table() { go test -trimpath -count=1 "$1" -run "$2" -update; }

# step NAME COMMAND... runs a step, and names it if it fails.
step() {
  "${@:2}" || { echo "make generate: the step \"$1\" failed; no file was changed" >&2; exit 1; }
}

if [ "${1:-}" = here ]; then
  step "protos" tool buf generate
  step "SQL" tool sqlc generate --file cmd/internal/backend/store/sqlc.yaml
  step "protos of edgebench" env -C tools/external/edgebench go tool -modfile="$PWD/tools/go.mod" buf generate
  step "OpenAPI document" run ./gateway/openapi/openapigen
  step "documentation pages" run ./gateway/apidocs/apidocsgen
  step "operations of opsctl and of the client packages" run ./gateway/openapi/operationsgen
  step "runbooks" run ./cmd/internal/gate/admin/console/runbooksgen
  step "keys and chart" table ./cmd/internal/gate/config 'DocumentationListsEveryKey|ChartIsCurrent'
  step "metrics of opsgate" table ./cmd/internal/gate/wiring EveryRegisteredMetric
  step "metrics of opsbackend" table ./cmd/internal/backend/command EveryRegisteredMetric
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
  if [ -e "$file" ]; then printf '%s\n' "$file"; fi # skips files that are deleted but not committed
done >"$work/files"
tar -cf - -T "$work/files" | tar -xf - -C "$work/tree"

"$work/tree/tools/generate.sh" here

(cd "$work/tree" && find . -type f) | while IFS= read -r file; do
  if ! cmp -s "$work/tree/$file" "$file"; then
    mkdir -p "$(dirname "$file")"
    cp -p "$work/tree/$file" "$file"
  fi
done
while IFS= read -r file; do
  if [ ! -e "$work/tree/$file" ]; then rm -f "$file"; fi
done <"$work/files"
