#!/usr/bin/env bash
# files.sh VERSION DATE OUT writes what a release has besides its programs into the folder OUT:
# manual pages, completions, units for packages, the Helm chart, and the client packages for Python,
# npm and Go. .goreleaser.yaml runs it. The packages need what `make test-packages` installs.
set -euo pipefail
version=$1 date=$2
mkdir -p "$3"/{man,completions,packages,units}
out=$(cd "$3" && pwd)
cd "$(dirname "$0")/../.."

flags=$(sed 's/-tags=/&manual,/' deploy/build-flags) # the tag adds the command that writes manual pages
info=opsgate/internal/buildinfo
for program in opsgate opsbackend opsdev opsctl; do
  # shellcheck disable=SC2086 # several flags
  go build $flags -ldflags="-X $info.version=$version -X $info.date=$date" -o "$out/$program" "./cmd/$program"
  "$out/$program" man "$out/man"
  for shell in bash zsh fish; do "$out/$program" completion "$shell" >"$out/completions/$program.$shell"; done
  rm "$out/$program"
done

for unit in opsgate.service opsgate.socket; do sed 's#/usr/local/bin#/usr/bin#' "deploy/systemd/$unit" >"$out/units/$unit"; done

# The version of the chart is that of a release: a snapshot's is 0.0.0.
number=$([[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] && echo "$version" || echo 0.0.0)
clients/pack.sh "$version" "$date" "$out/packages"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -rL deploy/helm/opsgate "$work"
sed -i "s/^version: .*/version: $number/; s/^appVersion: .*/appVersion: \"$version\"/" "$work/opsgate/Chart.yaml"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$date" -C "$work" -czf "$out/packages/opsgate-$number.tgz" opsgate
