#!/usr/bin/env bash
# check-dependencies.sh MODULE... fails if a direct dependency or tool of a module has no line in
# docs/develop/dependencies.md, or a line there names an unused one.
set -euo pipefail
cd "$(dirname "$0")/.."

used=$(for module in "$@"; do
  go -C "$module" list -m -f '{{if not (or .Main .Indirect .Replace)}}{{.Path}}{{end}}' all
  go -C "$module" list -f '{{.Module.Path}}' tool 2> >(grep -v 'matched no packages' >&2)
done | sed '/^$/d' | sort -u)
listed=$(sed -n 's/^- `\([^`]*\)`: .*/\1/p' docs/develop/dependencies.md | sort -u)

if ! difference=$(diff <(echo "$listed") <(echo "$used")); then
  echo "docs/develop/dependencies.md (<) and the dependencies (>) differ:" >&2
  grep '^[<>]' <<<"$difference" >&2
  exit 1
fi
