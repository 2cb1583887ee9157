package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirdisk"
)

func withInline(c *Config) { c.Inline = true }

// TestInlinePoliciesSurviveRestarts: on every store another server goes on with the histories of
// inline policies, and settles their reservations, on HTTP and RESP. The store of a disk is closed
// and opened between two.
func TestInlinePoliciesSurviveRestarts(t *testing.T) {
	memory := weir.NewMemory()
	dir, onDisk := t.TempDir(), (*weirdisk.Engine)(nil)
	for _, store := range []struct {
		name string
		open func(t *testing.T) engine.Engine
	}{
		{"memory", func(*testing.T) engine.Engine { return memory }},
		{"disk", func(t *testing.T) engine.Engine {
			if onDisk != nil {
				must.Do(t, onDisk.Close())
			}
			var err error
			onDisk, err = weirdisk.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			return onDisk
		}},
		{"redis", nil},
	} {
		t.Run(store.name, func(t *testing.T) {
			open := store.open
			if open == nil {
				address := redistest.Start(t).Addr
				open = func(t *testing.T) engine.Engine {
					e, _ := enginetest.On(t, address)
					return e
				}
			}
			restart := func() *Server {
				s, _ := newServer(t, open(t), withInline)
				return s
			}
			const model = `"policy":"search","limits":["10 per hour per ip","50 per day"],"key":{"ip":"1"}`
			const options = `LIMITS "10 per hour per ip" LIMITS "50 per day"`
			s := restart()
			name := play(t, s, `POST /v1/reserve {`+model+`,"n":6,"id":"job"} => 200 …"reservation":"$name"…`)["name"]
			second := play(t, s, `WEIR.RESERVE search ip=1 2 `+options+` => *11 :1 :2 :2 … :0 :0 $… $name :…`)["name"]
			play(t, s, `POST /v1/peek {"policy":"search","key":{"ip":"1"}} => 200 …"remaining":2,…"max":2,"used":0,…`)
			s = restart()
			play(t, s, fmt.Sprintf(`
				POST /v1/check {%[1]s,"n":3} => 200 {"allowed":false,…
				POST /v1/reserve {%[1]s,"n":6,"id":"job"} => 200 …"replayed":true,…"reservation":"%[2]s"…
				POST /v1/settle {"reservation":"%[2]s","actual":1} => 200 {"policy":"inline.search","reserved":6,"actual":1,"refunded":5,"recorded":0}
				WEIR.EXTEND %[3]s 1 2 => *11 :1 :1 … :3 …
				WEIR.SETTLE %[3]s 3 => *4 :3 :3 :0 :0
				POST /v1/peek {%[1]s} => 200 …"remaining":6,…"max":50,"used":4,…
				WEIR.CHECK search ip=1 7 %[4]s => *9 :0 …
				WEIR.CHECK search ip=1 6 %[4]s => *9 :1 …
			`, model, name, second, options))
			play(t, restart(), fmt.Sprintf(`
				POST /v1/settle {"reservation":"%[2]s","actual":1} => 200 …"actual":1,…
				POST /v1/settle {"reservation":"%[2]s","actual":2} => 409 …
				DELETE /v1/keys/search?ip=1&limits=10+per+hour+per+ip&limits=50+per+day&limit=hour-ip => 200 {"reset":["hour-ip"],"kept":["day"]}
				POST /v1/peek {%[1]s} => 200 …"remaining":10,…"max":50,"used":10,…
			`, model, name))
		})
	}
	if onDisk != nil {
		must.Do(t, onDisk.Close())
	}
}

// TestInlinePoliciesAreOffByDefault: then each call with limits gets the flag in its error, and so
// does the reservation of a server that had it. Nothing reaches the engine.
func TestInlinePoliciesAreOffByDefault(t *testing.T) {
	on, _ := newServer(t, weir.NewMemory(), withInline)
	one := `"policy":"push","limits":["1 per minute per user"],"key":{"user":"ann"}`
	name := play(t, on, `POST /v1/reserve {`+one+`} => 200 …"reservation":"$name"…`)["name"]
	off, _ := newServer(t, unreached{t})
	const isOff = "inline policies are off, so a call carries no limits; start weir serve with --inline-policies, or name a policy of its file and leave the limits away"
	for _, call := range []string{
		"POST /v1/check {" + one + "}", "POST /v1/peek {" + one + "}", "POST /v1/record {" + one + "}", "POST /v1/reserve {" + one + "}",
		"POST /v1/refund {" + one + `,"granted_at_us":0}`, "POST /v1/count {" + one + `,"last_ms":1}`, "POST /v1/block {" + one + `,"for_ms":1}`,
		"DELETE /v1/keys/push?user=ann&limits=1+per+minute+per+user", `POST /v1/settle {"reservation":"` + name + `"}`,
		`POST /v1/extend {"reservation":"` + name + `"}`, `POST /v1/release {"reservation":"` + name + `"}`,
	} {
		play(t, off, call+" => 400 "+isOff)
	}
	for _, call := range []string{`WEIR.CHECK push user=ann LIMITS "1 per minute per user"`, "WEIR.SETTLE " + name} {
		play(t, off, call+" => -ERR "+isOff)
	}
	play(t, off, `POST /v1/checks {"checks":[{`+one+`}]} => 200 …"status":400,"detail":"`+isOff+`"…`)
}

// TestFilesHaveNoNamesOfInlinePolicies: the server does not start with such a file, and a reload
// leaves the older one in force. Without inline policies the name is like any other.
func TestFilesHaveNoNamesOfInlinePolicies(t *testing.T) {
	file := parsed(t, "  search: {limit: 1 per day}\n  inline.push: {limit: 1 per day}\n")
	const want = "weir.yaml:4: policy inline.push has the name of an inline policy, which calls may carry by --inline-policies; choose a name that does not begin with inline."
	if _, err := New(complete(Config{Policies: file, Inline: true})); err == nil || !strings.HasSuffix(err.Error(), want[len("weir.yaml"):]) {
		t.Errorf("the start: %v, want %s", err, want)
	}
	s, _ := newServer(t, nil, withInline)
	if err := s.Reload(file, nil); err == nil || s.Generation() != 1 {
		t.Errorf("a reload: %v, generation %d; want an error and the older policies", err, s.Generation())
	}
	if _, err := New(complete(Config{Policies: file})); err != nil {
		t.Fatal(err)
	}
}

// TestReloadsKeepInlinePolicies: a reload changes neither their counters nor their histories.
func TestReloadsKeepInlinePolicies(t *testing.T) {
	s, _ := newServer(t, nil, withInline)
	one := `{"limits":["2 per minute"]}`
	play(t, s, "POST /v1/check "+one+` => 200 {"allowed":true,…`)
	must.Do(t, s.Reload(&policy.File{Policies: parsed(t, "  other: {limit: 1 per day}\n").Policies}, nil))
	play(t, s, `
		POST /v1/check `+one+` => 200 {"allowed":true,…"remaining":0,…
		metric weir_decisions_total{outcome="allowed",policy="inline.2-per-minute",protocol="http"} 2
	`)
}

// TestTooManyInlinePolicies: a program that writes values into names meets the bound, over HTTP and
// RESP, as bad input. The policies of the file and those that are there go on.
func TestTooManyInlinePolicies(t *testing.T) {
	s, _ := newServer(t, nil, withInline)
	for i := range inline.Max {
		if r := ask(s, "POST", "/v1/check", fmt.Sprintf(`{"policy":"user-%d","limits":["1 per day"]}`, i)); r.status != 200 {
			t.Fatalf("policy %d: %d %s", i, r.status, r.body)
		}
	}
	const full = "no room for another inline policy: there are 1000, the most, each called within the last hour; " +
		"write values such as users into the key, not into the name or the limits, or move policies to the file"
	play(t, s, `
		POST /v1/check {"policy":"user-1000","limits":["1 per day"]} => 400 `+full+`
		POST /v1/check {"policy":"user-1","limits":["2 per day"]} => 400 `+full+`
		WEIR.CHECK user-1000 LIMITS "1 per day" => -ERR `+full+`
		POST /v1/check {"policy":"user-1","limits":["1 per day"]} => 200 {"allowed":false,…
		POST /v1/check `+searchBody+` => 200 {"allowed":true,…
		metric weir_inline_policies 1000
	`)
}

// TestInlineLimitsHoldUnderLoad: many callers of one inline policy at the same time, with two texts,
// get no more than the larger limit.
func TestInlineLimitsHoldUnderLoad(t *testing.T) {
	s, _ := newServer(t, nil, withInline)
	var mu sync.Mutex
	granted := 0
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				body := fmt.Sprintf(`{"policy":"push","limits":["%d per day per user"],"key":{"user":"ann"}}`, 99+i%2)
				if r := ask(s, "POST", "/v1/check", body); strings.HasPrefix(r.body, `{"allowed":true`) {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if granted != 100 {
		t.Errorf("%d of 400 calls were granted, want 100", granted)
	}
}
