#!/usr/bin/env bash
# fresh.sh runs make test on a clone of the commit that is checked out, as on a fresh machine: as a
# user who is not root, without a network, a C compiler and the variables of CI, with a PATH that
# has Go, git, make and the programs of Debian's essential packages alone. It fails if a test fails,
# or is skipped for another reason than that it takes long, or needs root or something that is
# missing there. It needs Debian, root, and the modules in their cache.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work user=65534 # nobody
export compiled=$(go env GOCACHE)-fresh # the user's cache, from one run to the next

mkdir "$work"/{bin,go,modules,cache,home}
essential=$(dpkg-query --show --showformat '${Essential} ${binary:Package}\n' | awk '$1 == "yes" { print $2 }')
dpkg --listfiles $essential | grep -E '^(/usr)?/s?bin/[^/]+$' | xargs ln -sf -t "$work/bin"
ln -s "$(command -v awk)" "$(command -v git)" "$(command -v make)" /mnt/go/bin/{go,gofmt} "$work/bin"
git clone --quiet --depth=1 "file://$PWD" "$work/opsgate"
mkdir -p "$compiled"
chown -R "$user:$user" "$work"
chown "$user:$user" "$compiled"

# In its namespaces there is no network, and Go and its caches, which may be below /root, are where
# the user can read them, and always at the same place, so that the cache has what the last run
# compiled. The mounts end with it, before $work is removed.
isolated() {
  ip link set lo up
  mount --bind "$work" /mnt
  mount --bind -o ro "$(go env GOROOT)" /mnt/go
  mount --bind -o ro "$(go env GOMODCACHE)" /mnt/modules
  mount --bind "$compiled" /mnt/cache
  cd /mnt/opsgate
  exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs env --ignore-environment \
    PATH=/mnt/bin HOME=/mnt/home GOCACHE=/mnt/cache GOMODCACHE=/mnt/modules GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0 \
    make test VET_FLAG='-vet=off -count=1'
}
export -f isolated
unshare --mount --net bash -euc isolated | tee "$work/log"

# reasons prints why each test was skipped, in the words of testkit, and the test.
reasons() {
  awk '
    function report() { if (test != "") print reason "\t" test; test = "" }
    /^(=== SKIP: |DONE )/ { report() }
    /^=== SKIP: / { test = $3 " " $4; reason = "for another reason" }
    test != "" && match($0, /\.go:[0-9]+: (takes long|needs [^:]+): /) {
      reason = substr($0, RSTART, RLENGTH - 2)
      sub(/^[^ ]+ /, "", reason)
    }
    END { report() }
  ' "$work/log"
}

# lacks reports whether the fresh machine lacks a program, or a file of the clone, or is not root.
# Other needs have several words.
lacks() {
  case $1 in
  root) ;;
  *' '*) false ;;
  */*) [ ! -e "$work/opsgate/${1##*../}" ] ;;
  *) [ ! -e "$work/bin/$1" ] ;;
  esac
}

failed=0
reasons >"$work/skipped"
while read -r count reason; do
  printf '%5d tests were skipped: %s\n' "$count" "$reason"
  if [ "$reason" != "takes long" ] && { [ "$reason" = "${reason#needs }" ] || ! lacks "${reason#needs }"; }; then
    echo "this is no reason on a fresh machine:"
    grep -F "$reason	" "$work/skipped"
    failed=1
  fi
done < <(cut -f 1 "$work/skipped" | sort | uniq -c)
exit "$failed"
