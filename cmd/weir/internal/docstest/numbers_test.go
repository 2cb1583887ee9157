package docs_test

import (
	"strings"
	"testing"
)

// TestNumbersOnPages: a bound or a default that a page names is that of the code. Whoever
// changes one of the two texts changes the other. White space does not count, so lines may be
// broken anywhere.
func TestNumbersOnPages(t *testing.T) {
	for _, n := range []struct{ page, text, file, code string }{
		{"docs/outages.md", "within the timeout, 50 ms by default", "fallback/engine.go", "timeout: 50 * time.Millisecond"},
		{"docs/outages.md", "After 5 consecutive failures", "fallback/engine.go", "threshold, f.breaker.since = 5"},
		{"docs/outages.md", "Every\n100 to 500 ms, at random", "fallback/breaker.go", "probeMin = 100 * time.Millisecond\n\tprobeMax = 500 * time.Millisecond"},
		{"docs/outages.md", "The default is 1: every process", "fallback/engine.go", "instances: 1"},
		{"docs/redis.md", "when the cached denial expires: 100 ms", "weirredis/cache.go", "defaultCacheTTL = 100 * time.Millisecond"},
		{"docs/redis.md", "the primary from Sentinels every five seconds", "weirredis/rueidisconn/conn.go", "sentinelRefresh = 5 * time.Second"},
		{"docs/semantics.md", "a value longer than 1 KiB", "internal/keyenc/keyenc.go", "MaxValueBytes = 1 << 10"},
		{"docs/semantics.md", "An idempotency key is 1 to 128 arbitrary bytes", "vocabulary.go", "MaxIDBytes = 128"},
		{"docs/semantics.md", "and at least a minute", "engine/compiled.go", "minIdempotencyTTL = time.Minute"},
		{"docs/semantics.md", "more than 16\n  histories", "engine/limit.go", "MaxLimits = 16"},
		{"docs/durability.md", "`100ms` (the default), or another time of 1ms to 1m", "weirdisk/weirdisk.go", "defaultSync = 100 * time.Millisecond"},
		{"docs/durability.md", "30 in `make test`", "weirdisk/fault_kill_test.go", `"weirdisk.kills", 30`},
		{"docs/durability.md", "300 in `make test`", "weirdisk/fault_image_test.go", `"weirdisk.images", 300`},
		{"docs/http-api.md", "array of 1 to 128 objects", "cmd/weir/internal/server/httpapi/parse.go", "maxChecks = 128"},
		{"docs/http-api.md", "one JSON object of at most 64 KiB", "cmd/weir/internal/server/httpapi/parse.go", "MaxBody = 64 << 10"},
		{"docs/http-api.md", "(0 … 1,000,", "cmd/weir/internal/server/httpapi/top.go", "maxTop     = 1000"},
		{"docs/metrics.md", "the first 64 bytes of each value", "cmd/weir/internal/topkeys/topkeys.go", "maxValue = 64"},
		{"docs/metrics.md", "the last ten to twenty minutes", "cmd/weir/internal/topkeys/topkeys.go", "period = 10 * time.Minute"},
		{"docs/resp.md", "| a command | 64 KiB, 64 arguments |", "cmd/weir/internal/front/resp/parse.go", "maxCommand = 64 << 10 // bytes, the headers included\n\tmaxArgs    = 64"},
		{"docs/resp.md", "| between two commands | an hour |", "cmd/weir/internal/front/resp/server.go", "idleTime  = time.Hour"},
		{"docs/resp.md", "up to 256 decisions that follow", "cmd/weir/internal/front/resp/decide.go", "maxBatch  = 256"},
		{"docs/envoy.md", "| 16 KiB and 32 names of header fields |", "cmd/weir/internal/front/envoy/listener.go", "maxHeaders = 16 << 10 // bytes of a header list\n\tmaxFields  = 32"},
		{"docs/envoy.md", "| 64 KiB of a message |", "cmd/weir/internal/front/envoy/listener.go", "maxMessage = 64 << 10"},
		{"docs/envoy.md", "| 100 calls at once on one connection |", "cmd/weir/internal/front/envoy/listener.go", "maxStreams = 100"},
		{"docs/envoy.md", "| 256 connections without a complete authorized call, of one address 128 |", "cmd/weir/internal/server/listener.go", "maxStrangers = 256"},
		{"docs/envoy.md", "| 96 KiB, or 11 incomplete health calls,", "cmd/weir/internal/front/envoy/listener.go", "Allowance = 96 << 10"},
		{"docs/envoy.md", "for 1,000 values of a rule, of at most 512 bytes", "cmd/weir/internal/front/envoy/tally.go", "maxDetails     = 1000 // names with values of a rule\n\tmaxDetailBytes = 512"},
		{"docs/service.md", "10,000, to the admin one 100;", "cmd/weir/internal/server/exposure.go", "adminConns = 100"},
		{"docs/service.md", "Each listener has 16 slots beyond those of callers", "cmd/weir/internal/server/exposure.go", "spareConns = 16"},
		{"docs/service.md", "16 KiB, and 4 KiB that net/http adds, within 5 s", "cmd/weir/internal/server/server.go", "maxHeader = 16 << 10"},
		{"docs/service.md", "| an idle connection | 2 minutes |", "cmd/weir/internal/server/server.go", "cmp.Or(l.Idle, 2*time.Minute)"},
		{"docs/service.md", "| an answer | 20 s from", "cmd/weir/internal/server/server.go", "cmp.Or(l.Write, 20*time.Second)"},
		{"docs/service.md", "has 16 to 512 characters", "cmd/weir/internal/listen/secret.go", "MinSecret = 16"},
		{"docs/service.md", "a buffer of 32,768 calls", "cmd/weir/internal/recorder/recorder.go", "maxCalls   = 1 << 15"},
		{"docs/service.md", "| a key | 16 dimensions, 1 KiB each |", "internal/keyenc/keyenc.go", "MaxValues = 16"},
		{"docs/replay.md", "at most 2,000,000 keys, 100 MiB of their text", "cmd/weir/internal/logs/replay/log.go", "MaxLogKeys     = 2_000_000\n\tMaxLogKeyBytes = 100 << 20"},
	} {
		if !strings.Contains(words(read(t, n.page)), words(n.text)) {
			t.Errorf("%s does not have %q, as %s has %q", n.page, n.text, n.file, n.code)
		}
		if !strings.Contains(words(read(t, n.file)), words(n.code)) {
			t.Errorf("%s does not have %q; is %q of %s still true?", n.file, n.code, n.text, n.page)
		}
	}
}

// words returns a text with one space between its words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
