package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// holdServer serves a render farm: 2 at once for at most 30s, and 10 a day.
func holdServer(t *testing.T, e engine.Engine, change ...func(*Config)) *Server {
	t.Helper()
	s, _ := newServer(t, e, append(change, func(c *Config) {
		c.Policies = parsed(t, `  render: {limits: {day: 10 jobs per day per user, running: "2 jobs at once per user, for at most 30s"}}
  held: {limit: "2 at once, for at most 30s"}
  rates: {limit: 10 per day}
`)
	})...)
	return s
}

const renderReserve = `{"policy":"render","key":{"user":"ann"}}`

func tokenBody(token string) string { return fmt.Sprintf(`{"reservation":%q}`, token) }

// counted is a line of a script: a peek at the units of ann that count per day and that are held.
func counted(day, running int64) string {
	return fmt.Sprintf("\nPOST /v1/peek %s => 200 …\"name\":\"day\",…\"used\":%d,…\"name\":\"running\",…\"used\":%d,…\n", renderReserve, day, running)
}

// TestHoldsAreReplayed: calls with and without a hold, and their trace.
func TestHoldsAreReplayed(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	record := must.Get(recorder.Open(recorder.Config{Path: trace, FileBytes: 1 << 20, Files: 1, Sample: 1}))(t)
	s := holdServer(t, nil, func(c *Config) { c.Recorder = record })
	play(t, s, `
		# without rates
		POST /v1/reserve {"policy":"held","n":2} => 200 …"reservation":"$only"…
		POST /v1/release {"reservation":"$only"} => 200 {"policy":"held","reserved":2,"actual":0,"refunded":2,"recorded":0}
		# more than was held is recorded nowhere
		POST /v1/reserve {"policy":"held","n":1} => 200 …"reservation":"$more"…
		POST /v1/settle {"reservation":"$more","actual":5} => 200 {"policy":"held","reserved":1,"actual":5,"refunded":0,"recorded":0}
		# a reservation lasts as long as its hold
		POST /v1/reserve {"policy":"render","key":{"user":"bob"},"ttl_ms":29999} => 400 …"ttl_ms" must be 30000 to 86400000…ends before its hold…leave it out…
		WEIR.RESERVE held 1 TTL 29999 => -ERR TTL must be 30000 to 30000: held holds units for up to 30s…
		POST /v1/reserve {"policy":"held","ttl_ms":30000} => 200 …"reservation":…
		# without a hold
		POST /v1/reserve {"policy":"rates","n":2} => 200 …"reservation":"$rates"…
		! held_until
		POST /v1/extend {"reservation":"$rates"} => 400 …no hold to extend…
		POST /v1/settle {"reservation":"$rates"} => 200 …
	`)
	record.Close()
	runner := must.Get(replay.New(s.policies.Version().File, weir.NewMemory()))(t)
	if sum, err := runner.Run(must.Get(os.Open(trace))(t), io.Discard); err != nil || sum.Errors > 0 || sum.Allowed == 0 || sum.Other == 0 {
		t.Errorf("the trace is replayed as %+v, %v; want no errors", sum, err)
	}
}

// TestHoldsEndAtACap: with no room for a claim, a settlement ends its hold and takes units back.
// One that records units is an error.
func TestHoldsEndAtACap(t *testing.T) {
	play(t, holdServer(t, fallback.New(weir.NewMemory(weir.MaxKeys(4)), fallback.Deny)), `
		POST /v1/reserve {"policy":"held","n":2} => 200 …"reservation":"$held"…
		POST /v1/reserve {"policy":"rates","n":5} => 200 …"reservation":"$rates"…
		POST /v1/reserve `+renderReserve+` => 200 …"reservation":"$render"…
		POST /v1/reserve `+renderReserve+` => 200 …"reservation":"$done"…
		POST /v1/extend {"reservation":"$held"} => 503 …
		`+strings.Repeat(`
		POST /v1/release {"reservation":"$held"} => 200 {"policy":"held","reserved":2,"actual":0,"refunded":2,"recorded":0}
		POST /v1/settle {"reservation":"$rates","actual":6} => 503 …
		POST /v1/settle {"reservation":"$rates","actual":3} => 200 {"policy":"rates","reserved":5,"actual":3,"refunded":2,"recorded":0}
		POST /v1/release {"reservation":"$rates"} => 409 …settled already…
		POST /v1/release {"reservation":"$render"} => 200 {"policy":"render","reserved":1,"actual":0,"refunded":1,"recorded":0}
		POST /v1/settle {"reservation":"$done"} => 200 {"policy":"render","reserved":1,"actual":1,"refunded":0,"recorded":0}
		`, 2)+`
		POST /v1/peek {"policy":"rates"} => 200 …"remaining":7,…
		POST /v1/peek {"policy":"held"} => 200 …"used":0,…
	`+counted(1, 0))
}

// TestSettleOrExtend: of concurrent settlements and extensions of a reservation one kind
// wins, on two servers with one store.
func TestSettleOrExtend(t *testing.T) {
	for range 20 {
		store := weir.NewMemory()
		servers := []*Server{holdServer(t, store, sharedSecret), holdServer(t, store, sharedSecret)}
		token := reserveBy(t, servers[0], renderReserve)
		var mu sync.Mutex
		statuses := map[string]map[int]int{"/v1/settle": {}, "/v1/extend": {}}
		var all sync.WaitGroup
		for i := range 8 {
			for path := range statuses {
				all.Go(func() {
					r := ask(servers[i%2], "POST", path, tokenBody(token))
					mu.Lock()
					defer mu.Unlock()
					statuses[path][r.status]++
				})
			}
		}
		all.Wait()
		settled, extended := statuses["/v1/settle"], statuses["/v1/extend"]
		if won, lost := settled[200], settled[409]; won != 8-lost || extended[200] != lost || extended[409] != won || won != 0 && lost != 0 {
			t.Errorf("%v", statuses)
		}
		held := int64(0)
		if extended[200] > 0 {
			held = 1
		}
		play(t, servers[0], counted(1, held))
	}
}

// TestFailedExtensionsCanBeRetried: the store fails in the middle of an extension, before or
// after it did its part. A retry extends once.
func TestFailedExtensionsCanBeRetried(t *testing.T) {
	for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
		faulty := weirtest.NewFaulty(weir.NewMemory())
		s := holdServer(t, corrections{faulty})
		extend := "# " + name + "\nPOST /v1/extend " + tokenBody(reserveBy(t, s, renderReserve))
		faulty.Break(fault)
		play(t, s, extend+" => 503 …\n"+extend+" => 503 …")
		faulty.Restore()
		next := play(t, s, extend+` => 200 …"reservation":"$next"…`+counted(1, 1))["next"]
		settle := "# " + name + "\nPOST /v1/settle " + tokenBody(next)
		faulty.Break(fault)
		play(t, s, settle+" => 503 …\n"+settle+" => 503 …")
		faulty.Restore()
		play(t, s, strings.Repeat(settle+" => 200 …"+counted(1, 0), 2))
	}
}

// TestForeignHolds: a reservation of another store or secret is not extended.
func TestForeignHolds(t *testing.T) {
	s := holdServer(t, weir.NewMemory(), sharedSecret)
	token := reserveBy(t, s, renderReserve)
	wantProblem(t, "another store", ask(holdServer(t, weir.NewMemory(), sharedSecret), "POST", "/v1/extend", tokenBody(token)), 404, "another store")
	wantProblem(t, "another secret", ask(holdServer(t, nil), "POST", "/v1/extend", tokenBody(token)), 404, "no such reservation")
	wantProblem(t, "no token", ask(s, "POST", "/v1/extend", `{}`), 400, `"reservation" is missing`)
	play(t, s, counted(1, 1))
}
