# What developers do here. `make` alone lists it.

GO      ?= go
LINT     = $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZES  ?= 20000x # tries of each fuzz target

.PHONY: help demo test histories failover chaos chaos-breaks vet lint tidy-check bench fuzz tools clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

demo: ## a server with an agent whose calls you approve in the browser; needs nothing
	$(GO) run ./cmd/approvalbot demo

test: tools ## all tests, with the race detector
	$(GO) test -race -shuffle=on -timeout 20m ./...

histories: tools ## long histories of killed clients on a bad network, for a quarter of an hour
	HISTORY_RUNS=$${HISTORY_RUNS:-20} HISTORY_OPS=$${HISTORY_OPS:-10000} HISTORY_SECONDS=$${HISTORY_SECONDS:-60} \
		$(GO) test -race -count 1 -timeout 2h -v -run '^TestHistories$$' ./store/storetest/history

failover: tools ## what is lost and what is dispatched twice when a primary breaks, measured
	FAILOVER_TRIALS=$${FAILOVER_TRIALS:-3} FAILOVER_CALLS=$${FAILOVER_CALLS:-3000} \
		$(GO) test -count 1 -parallel 1 -timeout 1h -v -run '^TestFailOver$$' ./store

chaos: tools ## a thousand histories in which everything breaks; CHAOS_SEED, CHAOS_HISTORIES, CHAOS_PARALLEL
	$(GO) test -c -o bin/chaos.test ./store/storetest/chaos
	cd store/storetest/chaos && CHAOS_HISTORIES=$${CHAOS_HISTORIES:-1000} ../../../bin/chaos.test -test.run '^TestChaos$$' -test.timeout 24h

chaos-breaks: tools ## breaks the gate on purpose, and sees that these histories show it
	store/storetest/chaos/testdata/breaks.sh

vet: ## go vet
	$(GO) vet ./...

lint: ## golangci-lint, which stays out of go.mod
	$(LINT) run ./...

tidy-check: ## go.mod and go.sum are as `go mod tidy` leaves them
	$(GO) mod tidy -diff

bench: ## all benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz: ## each fuzz target for a short time
	@grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for f in $$($(GO) test -list '^Fuzz' $$dir | grep ^Fuzz); do \
			echo "$$dir $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZES) $$dir || exit 1; \
		done; \
	done

tools: ## what the tests run beside Go: a C compiler, Redis, a browser, Node.js, Python
	@.ci/tools

clean: ## what building and testing leave behind
	rm -rf bin dist approvalbot coverage.*
	$(GO) clean -testcache
