#!/usr/bin/env bash
# pack.sh VERSION DATE OUT builds the client packages for Python, npm and Go into the folder OUT,
# each with its ecosystem's own tool. They are what `make test-packages` installs. A version that is
# no release, like 1.2.0-rc.1 or 1.2.0-abc1234, is 1.2.0rc1 or 1.2.0+abc1234 in Python.
set -euo pipefail
version=$1 date=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/python"
cp -r python/opsgate_client python/pyproject.toml ../LICENSE "$work/python"
python_version=$(sed -E 's/-(rc)\.?([0-9]+)/\1\2/; s/-/+/; s/[-]/./g' <<<"$version")
sed -i "s/^version = .*/version = \"$python_version\"/" "$work/python/pyproject.toml"
SOURCE_DATE_EPOCH=$(date -d "$date" +%s) python/.venv/bin/python -m build --wheel --no-isolation --outdir "$out" "$work/python" >/dev/null

cp -r typescript/opsgate-client ../LICENSE "$work"
mv "$work/LICENSE" "$work/opsgate-client"
npm --prefix "$work/opsgate-client" version --no-git-tag-version --allow-same-version "$version" >/dev/null
npm pack --silent --pack-destination "$out" "$work/opsgate-client" >/dev/null

mkdir "$work/go"
cp -r go/client "$work/go/opsgate-client"
cp ../LICENSE "$work/go/opsgate-client"
printf 'module opsgate/client\n\ngo 1.24\n' >"$work/go/opsgate-client/go.mod"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$date" -C "$work/go" -czf "$out/opsgate-client-go-$version.tar.gz" opsgate-client
