#!/usr/bin/env bash
# flakes.sh ROUNDS TIMEOUT PACKAGE... runs the tests of packages ROUNDS times, each run with the
# race detector, in another order and with other random cases, beside as many busy processes as
# there are processors. A run fails after TIMEOUT. It continues after a failure, and prints what
# failed and how to repeat it.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=$1 timeout=$2
shift 2
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "$@")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# busy uses a processor until this script ends, even if it is killed.
busy() {
  while kill -0 $$ 2>/dev/null; do
    for ((i = 0; i < 1000000; i++)); do :; done
  done
}

# build builds the tests of a package, and run runs them once. They do so in the background, so that
# a signal ends them.
build() {
  go test -c -race -o "$work/tests" "$1" &
  wait $!
}
run() {
  (cd "$1" && RAPID_SEED=$2 exec "$work/tests" -test.shuffle="$2" -test.timeout="$timeout" -test.paniconexit0) >"$work/log" 2>&1 &
  wait $!
}

for ((n = 0; n < $(getconf _NPROCESSORS_ONLN); n++)); do busy & done

failed=()
while read -r package folder; do
  began=$SECONDS failures=0
  if ! build "$package"; then
    failed+=("$package does not build")
    continue
  fi
  for ((round = 1; round <= rounds; round++)); do
    seed=$((RANDOM * 32768 + RANDOM + 1))
    run "$folder" "$seed" && continue
    failures=$((failures + 1))
    repeat="RAPID_SEED=$seed go test -race -count=1 -shuffle=$seed -timeout=$timeout $package"
    failed+=("$repeat")
    printf '== round %d failed: %s\n%s\n' "$round" "$repeat" "$(head -c 20000 "$work/log")"
  done
  printf '%-48s %d of %d rounds failed, %d s\n' "$package" "$failures" "$rounds" $((SECONDS - began))
done <<<"$packages"

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
