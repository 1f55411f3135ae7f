#!/usr/bin/env bash
# programs.sh PROGRAM[/PACKAGE]... installs the Debian packages of the programs that are missing; a
# package is named if it is not called like the program. Servers among them are not started. It
# fails if a program is missing afterwards.
set -euo pipefail

missing() {
  local program
  for program in "$@"; do
    command -v "${program%/*}" >/dev/null || printf '%s\n' "${program#*/}"
  done
}

mapfile -t packages < <(missing "$@")
[ "${#packages[@]}" -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed: ${packages[*]}. Root can install them with apt-get." >&2
  exit 1
fi

# Packages ask this program whether they may start their services: invoke-rc.d(8). A machine may
# have its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101 # no\n' >"$policy"
  chmod a+x "$policy"
fi

install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
}

echo "installing with apt-get: ${packages[*]}"
# Without a network it ends here, soon.
apt-get update -qq -o APT::Update::Error-Mode=any -o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15
if ! install "${packages[@]}"; then # one that is unknown here does not keep the others away
  for package in "${packages[@]}"; do
    install "$package" || true
  done
fi
still=$(missing "$@")
[ -z "$still" ] || { echo "could not be installed:" $still >&2; exit 1; }
