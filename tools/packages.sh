#!/usr/bin/env bash
# packages.sh installs the packages that tests use from npm, PyPI and Maven:
# docs/develop/dependencies.md. It keeps what is installed until the file that pins it changes.
set -euo pipefail
cd "$(dirname "$0")/.."

# install PINS TARGET INSTALLER PROGRAM/DEBIAN-PACKAGE... runs INSTALLER PINS TARGET, unless TARGET
# has what the file PINS pins.
install() {
  local pins=$1 target=$2 installer=$3 program packages=
  cmp -s "$pins" "$target/.installed" && return
  for program in "${@:4}"; do
    command -v "${program%/*}" >/dev/null || packages+=" ${program#*/}"
  done
  if [ -n "$packages" ]; then
    echo "the packages of $pins need programs; on Debian: apt-get install$packages" >&2
    return 1
  fi
  rm -rf "$target" && "$installer" "$pins" "$target" && cp "$pins" "$target/.installed"
}

from_npm() { npm --prefix "$(dirname "$1")" ci --no-progress; }

from_pypi() { python3 -m venv "$2" && "$2/bin/pip" install --quiet --no-deps --only-binary :all: --requirement "$1"; }

from_maven() { mvn --quiet --batch-mode --file "$1" package; }

failed=0
install tools/npm/package-lock.json tools/npm/node_modules from_npm node/nodejs npm || failed=1
install clients/python/requirements.txt clients/python/.venv from_pypi python3/python3-venv || failed=1
install tools/servers/requirements.txt tools/servers/.venv from_pypi python3/python3-venv || failed=1
install clients/java/pom.xml clients/java/lib from_maven javac/default-jdk-headless mvn/maven || failed=1
exit $failed
