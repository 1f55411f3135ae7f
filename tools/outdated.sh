#!/usr/bin/env bash
# outdated.sh MODULE... lists what is behind its newest version, with the days since that was
# published: the Go toolchain, the direct and linked modules and the tools of each MODULE, and the
# pins of npm and PyPI packages. It changes nothing. Columns: name, where it is pinned, version,
# newest version, days. A dash stands for a time that is not known.
set -euo pipefail
cd "$(dirname "$0")/.."

# days prints the days since a time in RFC 3339.
days() { echo $((($(date +%s) - $(date -d "$1" +%s)) / 86400)); }

rfc3339='2006-01-02T15:04:05Z07:00' # as a layout of Go

row() { printf '%-64s %-24s %-40s %-40s %s\n' "$@"; }

# linked prints the modules of a module that are direct, provide a tool, or are compiled for its
# programs and tests.
linked() {
  go -C "$1" list -m -f '{{if not (or .Main .Indirect .Replace)}}{{.Path}}{{end}}' all
  go -C "$1" list -deps -test -f '{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}}{{end}}{{end}}' ./... tool \
    2> >(grep -v 'matched no packages' >&2)
}

modules() {
  local list name have newest time
  list=$(linked "$1" | sed '/^$/d' | sort -u)
  [ -n "$list" ] || return 0
  xargs go -C "$1" list -m -u -e -f "{{with .Update}}{{\$.Path}} {{\$.Version}} {{.Version}} {{.Time.Format \"$rfc3339\"}}{{end}}" \
    <<<"$list" | while read -r name have newest time; do
    row "$name" "$1/go.mod" "$have" "$newest" "$(days "$time")"
  done
}

# toolchain lists the Go toolchain of releases, beside the newest of its minor version and the
# newest of all.
toolchain() {
  local have=$1 query newest platform
  platform=$(go env GOHOSTOS)-$(go env GOHOSTARCH)
  for query in "${have%.*}" latest; do
    newest=$(go list -m -f '{{.Version}}' "go@$query")
    [ "$have" = "$newest" ] || row "go ($query)" ./go.mod "$have" "$newest" \
      "$(days "$(go list -m -f "{{.Time.Format \"$rfc3339\"}}" "golang.org/toolchain@v0.0.1-go$newest.$platform")")"
  done
}

npm_packages() {
  local name have newest
  (npm --prefix tools/npm outdated --json || true) |
    jq -r 'to_entries[] | select(.value.wanted != .value.latest) | [.key, .value.wanted, .value.latest] | @tsv' |
    while read -r name have newest; do
      row "$name" tools/npm "$have" "$newest" "$(days "$(npm view "$name" time --json | jq -r --arg v "$newest" '.[$v]')")"
    done
}

# python_packages has no times: pip does not print when a version was published.
python_packages() {
  clients/python/.venv/bin/pip list --outdated --format json |
    jq -r '.[] | select(.name | IN("pip", "setuptools") | not) | [.name, .version, .latest_version] | @tsv' |
    while read -r name have newest; do row "$name" clients/python "$have" "$newest" -; done
}

if ! [ -x clients/python/.venv/bin/pip ]; then
  echo "pip compares what is installed: 'make test-packages' installs the packages" >&2
  exit 1
fi
row NAME WHERE HAVE NEWEST DAYS
toolchain "$(sed -n 's/^toolchain go//p' go.mod)"
for module in "$@"; do modules "$module"; done
npm_packages
python_packages
