# Weir. `make` lists the targets.

GO        ?= go
BIN       ?= bin
LISTEN    ?= 127.0.0.1:7070
FUZZTIME  ?= 30s
ATTEMPTS  ?= 10000000
HISTORIES ?= 1000
GRANTS    ?= 1000000000
SEEDS     ?= 10
KILLS     ?= 1000
PIECE     ?= 100000
IMAGES    ?= 10000
SOAK      ?= 30m
ATTACK    ?= 10m

# CYCLONEDX writes the list of modules in the program, at exactly this version.
CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.7.0

# With -trimpath a package compiled in one clone or worktree is up to date in all others.
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))

# RUNTESTS runs the tests of every module and counts skips.
RUNTESTS = GO=$(GO) $(GO) run ./internal/testkit/runtests

.DEFAULT_GOAL := help
.PHONY: help run build quick test check tools lint lint-modules test-table fuzz vuln sbom dist test-dist pin-images attack conformance conformance-redis conformance-disk drift hammer waiters test-faults kills images operators clients soak-clients mutants mutants-redis bench test-integrations soak advice

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Serve the demonstration policies, and inline ones, on 127.0.0.1:7070, or LISTEN=host:port.
	$(BIN)/weir serve --inline-policies --listen $(LISTEN)

build: ## Build bin/weir, or BIN=directory.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w" -o $(BIN)/weir ./cmd/weir

quick: ## Run format, vet and every test without a server or another program, in one minute.
	@GO=$(GO) scripts/lint --quick
	@$(RUNTESTS) quick

test: ## Name and install missing programs, if that needs no password; then staticcheck and the tests of packages, in six minutes.
	@scripts/tools --no-password || true
	@GO=$(GO) scripts/lint
	@$(RUNTESTS) test

check: ## Run the rest of CI, in ten minutes: tests of pages, the race detector on all else, changed fuzz targets, longer faults.
	@GO=$(GO) scripts/fuzz --changed 10s
	@$(RUNTESTS) check

test-table: ## Print each package with its needs and its seconds in each tier, from the last runs.
	@$(RUNTESTS) table

tools: ## Install the programs of the tests that this machine lacks, with sudo.
	@scripts/tools

lint: ## Check formatting, go vet and staticcheck.
	@GO=$(GO) scripts/lint

lint-modules: ## Run go vet in each module by its own go.mod, as users build it, and staticcheck in release.
	@GO=$(GO) scripts/lint --alone

fuzz: ## Run every fuzz target for FUZZTIME (30s), two at once.
	@GO=$(GO) scripts/fuzz $(FUZZTIME)

vuln: ## Report known vulnerabilities (needs https://vuln.go.dev or GOVULNDB; exit codes: scripts/vuln).
	@GO=$(GO) scripts/vuln

sbom: ## Write bin/weir.cdx.json, the modules and licenses in the program, as CycloneDX.
	@mkdir -p $(BIN)
	CGO_ENABLED=0 GOWORK=off $(GO) run $(CYCLONEDX) app -json -licenses -std -main . -output $(BIN)/weir.cdx.json cmd/weir

dist: ## Build the files of release VERSION (v0.1.0) into dist/, signed with the key of minisign in KEY=file or a throw-away key.
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/release ./release
	@$(BIN)/release dist -version "$(VERSION)" -key "$(KEY)"

test-dist: ## Build a release twice and compare, install, upgrade and purge its packages, run its image and its modules (needs root).
	cd release && $(GO) test -tags dist -count 1 -timeout 0 -v -run '^TestDist'

pin-images: ## Write the digests of the image tags into deploy/Dockerfile (needs the images' registry).
	@GO=$(GO) scripts/pin-images

conformance: ## Compare the memory engine with the specification for ATTEMPTS (10,000,000) attempts.
	$(GO) test -run '^TestMemoryConformance$$/^differential$$' -count 1 -timeout 0 -v ./internal/memory -args -weirtest.attempts $(ATTEMPTS)

conformance-redis: ATTEMPTS = 1000000
conformance-redis: ## Compare the Redis engine with the specification for ATTEMPTS (1,000,000) attempts on a real server.
	$(GO) test ./weirredis -run '^TestConformance$$/^default$$/^differential$$' -count 1 -timeout 0 -v -args -weirtest.attempts $(ATTEMPTS)

conformance-disk: ATTEMPTS = 1000000
conformance-disk: ## Compare the engine on disk, restarted every 300 calls, for ATTEMPTS (1,000,000) attempts in each of its two modes.
	@set -e; $(GO) test -c -o $(BIN)/weirdisk.test ./weirdisk; cd weirdisk; for seed in $$(seq $$(($(ATTEMPTS) / $(PIECE)))); do \
	  nice $(abspath $(BIN))/weirdisk.test -test.run '^TestConformance$$/^(always|every)$$/^(differential|together)$$' -test.v -weirtest.attempts $(PIECE) -weirtest.seed $$seed; done

drift: ## Show that a token bucket is exact to the microsecond after GRANTS (1,000,000,000) grants at each of three rates.
	$(GO) test ./internal/window -run '^TestBucketDoesNotDrift$$' -count 1 -timeout 0 -v -args -window.grants $(GRANTS)

hammer: ## Audit HISTORIES (1,000) concurrent histories, and as many of holds, of the memory engine from outside.
	$(GO) test -race -run '^TestMemoryConformance$$/^hammer$$' -count 1 -timeout 0 -v ./internal/memory -args -weirtest.hammers $(HISTORIES)

waiters: ROUNDS = 1000
waiters: ## Let 64 callers in four processes wait for turns on one Redis key, ROUNDS (1,000) times, and kill processes meanwhile.
	$(GO) test -count 1 -timeout 0 -v ./cmd/weir/internal/faulttest -run '^TestWaiters$$' -args -faulttest.rounds $(ROUNDS)

test-faults: ## Break Redis and its network with SEEDS (10) seeds for each fault, also a Cluster (15 minutes).
	$(GO) test -race -count 1 -timeout 30m ./cmd/weir/internal/faulttest -args -faulttest.seeds $(SEEDS)

kills: ## Kill a process with the engine on disk KILLS (1,000) times under 64 callers and audit all its lives (a quarter of an hour).
	$(GO) test -count 1 -timeout 0 -v ./weirdisk -run '^TestKills$$' -args -weirdisk.kills $(KILLS)

images: ## Open IMAGES (10,000) directories as power failures leave them, as many with damaged bytes, and as many with files missing or exchanged.
	$(GO) test -count 1 -timeout 0 -v ./weirdisk -run '^TestImages$$|^TestDamagedImages$$|^TestMixedDirectories$$' -args -weirdisk.images $(IMAGES)

test-integrations: tools ## Test the snippets with nginx, HAProxy, Caddy and Envoy, also while weir is down.
	$(GO) test -count 1 -v ./cmd/weir/internal/integrations

operators: ## Compare decisions with five pages open, and with 10,000 overrides, with those without (two minutes); fails above 1.1 and 1.03.
	$(GO) test -count 1 -v ./cmd/weir/internal/server -run '^TestPagesDoNotSlowDecisions$$' -args -pages
	$(GO) test ./cmd/weir/internal/server -run '^$$' -bench '^BenchmarkOverrides$$' -benchtime 2000x

clients: ## Run the tests of clients/node and clients/python, each by its name, on a real server.
	$(GO) test -count 1 -v ./clients/stand -run '^(TestSharedCases|TestNode|TestPython)$$'

soak-clients: CALLS = 100000
soak-clients: ## Make CALLS (100,000) calls with each client through a network with faults: each unit is charged once.
	WEIR_SOAK_CALLS=$(CALLS) $(GO) test -count 1 -v -timeout 0 ./clients/stand -run '^(TestNode|TestPython)$$/faults$$'

mutants: ## Put one fault at a time into the memory engine, batches and the library; a test must fail for each.
	$(GO) run ./internal/testkit/mutants
	$(GO) run ./internal/testkit/mutants -batches
	$(GO) run ./internal/testkit/mutants -library

mutants-redis: ## The same for the Redis engine, its scripts and clients, on a real server (an hour).
	$(GO) run ./internal/testkit/mutants -redis

soak: ## Send requests of every protocol for SOAK (30m); memory and goroutines must stay within 5 %.
	cd bench && $(GO) run ./soak -for $(SOAK)

attack: ## Attack weir serve on every listener for ATTACK (10m) beside honest callers; exits 1 if a goal is missed.
	cd bench && $(GO) run ./attack -for $(ATTACK)

advice: SHAPES = 100
advice: SEED = 0
advice: ## Compare the advice of weir suggest with that of an expert on SHAPES (100) logs of each shape, from SEED on or that of the day (six minutes).
	$(GO) test ./cmd/weir/internal/logs/suggest -run '^TestAdviceOf' -count 1 -timeout 0 -v -args -shapes $(SHAPES) -shape-seed $(SEED)

bench: ## Measure Weir and its peers: bench/results.csv and its page, RESULTS.md; then print the README's figures that differ (50 minutes).
	cd bench && $(GO) run ./all
	$(GO) test ./bench/all -count 1 -run Comparison
