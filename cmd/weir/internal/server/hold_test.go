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
	record, err := recorder.Open(recorder.Config{Path: trace, FileBytes: 1 << 20, Files: 1, Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := holdServer(t, nil, func(c *Config) { c.Recorder = record })
	play(t, s, `
		# without rates
		POST /v1/reserve {"policy":"held","n":2} => 200 …"reservation":"$only"…
		POST /v1/release {"reservation":"$only"} => 200 {"policy":"held","reserved":2,"actual":0,"refunded":0,"recorded":0}
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
		POST /v1/extend {"reservation":"$rates"} => 200 …
		! held_until
		POST /v1/extend {"reservation":"$rates","n":3} => 200 …
		POST /v1/settle {"reservation":"$rates","actual":1} => 200 {"policy":"rates","reserved":5,"actual":1,"refunded":3,"recorded":0}
		POST /v1/block {"policy":"rates","for_ms":3600000} => 200 …
		POST /v1/check {"policy":"rates"} => 200 {"allowed":false,…
	`)
	record.Close()
	runner, err := replay.New(s.policies.Version().File, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := runner.Run(opened, io.Discard); err != nil || sum.Errors > 0 || sum.Allowed == 0 || sum.Other == 0 {
		t.Errorf("the trace is replayed as %+v, %v; want no errors", sum, err)
	}
}

// TestSettleOrExtend: of concurrent settlements and extensions of a reservation each is made or
// finds it settled, on two servers with one store. In the end it is settled.
func TestSettleOrExtend(t *testing.T) {
	for range 20 {
		store := weir.NewMemory()
		servers := []*Server{holdServer(t, store), holdServer(t, store)}
		name := reserveBy(t, servers[0], renderReserve)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if r := ask(servers[i%2], "POST", "/v1/settle", tokenBody(name)); r.status != 200 {
					t.Errorf("settled: %d %s", r.status, r.body)
				}
			})
			all.Go(func() {
				if r := ask(servers[i%2], "POST", "/v1/extend", tokenBody(name)); r.status != 200 && r.status != 409 {
					t.Errorf("extended: %d %s", r.status, r.body)
				}
			})
		}
		all.Wait()
		play(t, servers[0], counted(1, 0)+"POST /v1/extend "+tokenBody(name)+" => 409 …")
	}
}

// TestFailedExtensionsCanBeRetried: the store fails before or after it has extended. A retry
// extends once, also by units.
func TestFailedExtensionsCanBeRetried(t *testing.T) {
	for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
		faulty := weirtest.NewFaulty(weir.NewMemory())
		s := holdServer(t, faulty)
		reservation := reserveBy(t, s, renderReserve)
		for _, body := range []string{tokenBody(reservation), fmt.Sprintf(`{"reservation":%q,"n":2,"reserved":1}`, reservation)} {
			extend := "# " + name + "\nPOST /v1/extend " + body
			faulty.Break(fault)
			play(t, s, extend+" => 503 …\n"+extend+" => 503 …")
			faulty.Restore()
			play(t, s, extend+` => 200 …"reservation":"`+reservation+`"…`)
		}
		play(t, s, counted(3, 1))
		settle := "# " + name + "\nPOST /v1/settle " + tokenBody(reservation)
		faulty.Break(fault)
		play(t, s, settle+" => 503 …\n"+settle+" => 503 …")
		faulty.Restore()
		play(t, s, strings.Repeat(settle+" => 200 …"+counted(3, 0), 2))
	}
}
