package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/weirtest"
)

// reserveBy makes a reservation and returns its name.
func reserveBy(t *testing.T, s *Server, body string) (name string) {
	t.Helper()
	return play(t, s, "POST /v1/reserve "+body+` => 200 …"reservation":"$name"…`)["name"]
}

func settleBody(name string, actual int) string {
	return fmt.Sprintf(`{"reservation":%q,"actual":%d}`, name, actual)
}

const smsReserve = `{"policy":"sms","key":{"phone":"+1"},"n":6}`

// wantLeft compares the units that are left of 10.
func wantLeft(t *testing.T, s *Server, n int) {
	t.Helper()
	play(t, s, fmt.Sprintf(`POST /v1/peek {"policy":"sms","key":{"phone":"+1"}} => 200 …"remaining":%d,…`, n))
}

// tally is an engine that counts its calls.
type tally struct {
	engine.Engine
	calls int
}

func (c *tally) Do(ctx context.Context, calls []engine.Call) {
	c.calls += len(calls)
	c.Engine.Do(ctx, calls)
}

// TestEachRequestOfAReservationIsOneCall: on HTTP and RESP, a reservation, its extension, with and
// without units, and its settlement are one call of the engine each. So is an operator's block.
func TestEachRequestOfAReservationIsOneCall(t *testing.T) {
	e := &tally{Engine: weir.NewMemory()}
	s, _ := newServer(t, e, withRESP)
	start(t, s)
	one := func(script string) map[string]string {
		t.Helper()
		e.calls = 0
		got := play(t, s, script)
		if e.calls != 1 {
			t.Errorf("%s took %d calls of the engine, want 1", script, e.calls)
		}
		return got
	}
	name := one(`POST /v1/reserve ` + smsReserve + ` => 200 …"reservation":"$name"…`)["name"]
	one(`POST /v1/extend {"reservation":"` + name + `"} => 200 {"policy":"sms","reservation":"` + name + `","reserved":6,"expires_at":"…"}`)
	one(`POST /v1/extend {"reservation":"` + name + `","n":2,"reserved":6} => 200 …"reserved":8,…`)
	one(`POST /v1/extend {"reservation":"` + name + `","n":2,"reserved":6} => 200 …"reserved":8,…`)
	one(`POST /v1/extend {"reservation":"` + name + `","n":9} => 429 {"allowed":false,"policy":"sms","granted":0,"remaining":2,…`)
	one(`POST /v1/settle ` + settleBody(name, 7) + ` => 200 {"policy":"sms","reserved":8,"actual":7,"refunded":1,"recorded":0}`)
	one(`POST /v1/settle ` + settleBody(name, 7) + ` => 200 {"policy":"sms","reserved":8,"actual":7,"refunded":1,"recorded":0}`)
	one(`POST /v1/settle ` + settleBody(name, 6) + ` => 409 …settled already…nothing was changed…`)
	wantLeft(t, s, 3)
	name = one(`WEIR.RESERVE sms phone=+2 6 => *11 :1 :6 :4 … :0 :0 $… $name :…`)["name"]
	one(`WEIR.EXTEND ` + name + ` 2 6 => *11 :1 :2 :2 … :8 …`)
	one(`WEIR.EXTEND ` + name + ` 9 => *11 :0 :0 :2 … :8 …`)
	one(`WEIR.SETTLE ` + name + ` 9 => *4 :8 :9 :0 :1`)
	one(`POST /v1/block {"policy":"sms","key":{"phone":"+2"},"for_ms":60000} => 200 {"policy":"sms","limits":["limit"],"blocked_until":"…"}`)
	one(`WEIR.BLOCK sms phone=+2 0 => *2 *1 $5 limit :0`)
}

// TestReservationsSettleOnce settles a reservation many times at once, on two servers
// with one store. An equal settlement gets the same answer; another number is rejected.
func TestReservationsSettleOnce(t *testing.T) {
	for _, c := range []struct{ actual, refunded, recorded, left int }{{5, 1, 0, 5}, {8, 0, 2, 2}, {0, 6, 0, 10}, {6, 0, 0, 4}} {
		store := weir.NewMemory()
		first, _ := newServer(t, store)
		second, _ := newServer(t, store)
		name := reserveBy(t, first, smsReserve)
		want := fmt.Sprintf(`{"policy":"sms","reserved":6,"actual":%d,"refunded":%d,"recorded":%d}`, c.actual, c.refunded, c.recorded)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if r := ask([]*Server{first, second}[i%2], "POST", "/v1/settle", settleBody(name, c.actual)); r.status != 200 || r.body != want+"\n" {
					t.Errorf("%d %s, want %s", r.status, r.body, want)
				}
			})
		}
		all.Wait()
		play(t, first, "POST /v1/settle "+settleBody(name, 7)+" => 409 …settled already…")
		wantLeft(t, second, c.left)
	}
}

// TestReservationsOfAnID: a retry with an id returns the same reservation, and its name holds
// nothing that another server on the store would not know.
func TestReservationsOfAnID(t *testing.T) {
	store := weir.NewMemory()
	first, _ := newServer(t, store)
	second, _ := newServer(t, store)
	const body = `{"policy":"sms","key":{"phone":"+1"},"n":6,"id":"order 1"}`
	name := reserveBy(t, first, body)
	play(t, second, `
		POST /v1/reserve `+body+` => 200 …"replayed":true…"reservation":"`+name+`"…
		POST /v1/reserve {"policy":"sms","key":{"phone":"+1"},"n":5,"id":"order 1"} => 400 …
		POST /v1/settle `+settleBody(name, 1)+` => 200 …
		POST /v1/reserve `+body+` => 200 …"replayed":true…"reservation":"`+name+`"…
		POST /v1/reserve {"policy":"sms","key":{"phone":"+1"},"n":0} => 200 {"allowed":true,…
		! "reservation"
		WEIR.RESERVE sms phone=+1 0 => *11 :1 … $0  :0
	`)
	wantLeft(t, first, 9)
	made := reserve.Name{Policy: "sms", ID: "order 1", Pairs: enforce.Pairs{{Name: "phone", Value: "+1"}}}
	if name != made.String() {
		t.Errorf("the name is %s, want that of policy, key and id, %s", name, made)
	}
	if a, b := reserveBy(t, first, smsReserve[:len(smsReserve)-2]+"1}"), reserveBy(t, first, smsReserve[:len(smsReserve)-2]+"1}"); a == b {
		t.Errorf("two reservations without an id have the name %s", a)
	}
}

// TestMalformedReservations: a text that is no name is bad input. One of an unknown reservation, of
// a removed policy, or of one that counts by other dimensions, is gone. Nothing changes.
func TestMalformedReservations(t *testing.T) {
	s, _ := newServer(t, nil)
	name := reserveBy(t, s, smsReserve)
	for _, bad := range []string{"", "AQID", "not base64!", name + "A", name + "=", name[:len(name)-2], "B" + name[1:], name + "\\n"} {
		for _, path := range []string{"/v1/settle", "/v1/release", "/v1/extend"} {
			r := ask(s, "POST", path, `{"reservation":"`+bad+`"}`)
			wantProblem(t, path+" "+bad, r, 400, "the reservation is malformed")
		}
		if !strings.ContainsAny(bad, " \\") && bad != "" {
			play(t, s, "WEIR.SETTLE "+bad+" => -ERR the reservation is malformed…")
		}
	}
	named := func(policy, phone, id string) string {
		return reserve.Name{Policy: policy, ID: id, Pairs: enforce.Pairs{{Name: "phone", Value: phone}}}.String()
	}
	for _, gone := range []string{named("sms", "+1", "another"), named("sms", "+2", "another"), named("mail", "+1", "x"), named("search", "+1", "x")} {
		for _, path := range []string{"/v1/settle", "/v1/extend"} {
			if r := ask(s, "POST", path, tokenBody(gone)); r.status != 410 {
				t.Errorf("%s: %d %s, want 410", gone, r.status, r.body)
			}
		}
	}
	wantLeft(t, s, 4)
	play(t, s, `
		let name `+name+`
		reload sms: {limit: 10 messages per day per phone per sender}
		POST /v1/settle {"reservation":"$name","actual":0} => 410 …other dimensions…
		reload fresh: {limit: 1 per minute}
		POST /v1/settle {"reservation":"$name","actual":0} => 410 …no policy "sms"; the units of its reservations leave in their time…
		reload smsx: {limit: 1 per minute}
		POST /v1/settle {"reservation":"$name","actual":0} => 410 …no policy "sms"; the units of its reservations leave in their time…
		# under other numbers
		reload sms: {limit: 20 messages per day per phone}
		POST /v1/settle {"reservation":"$name","actual":1} => 200 …
		POST /v1/peek {"policy":"sms","key":{"phone":"+1"}} => 200 …"remaining":19,…
	`)
}

// TestReservationsFollowPlans: the value that chose a plan is part of the name. Without the plans
// of its policy, a reservation is settled by the policy's own numbers.
func TestReservationsFollowPlans(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Policies = parsed(t, "  model: {limit: 10 per day per tenant, plan-by: plan, plans: {pro: 50 per day}}\n")
	})
	play(t, s, `
		POST /v1/reserve {"policy":"model","key":{"tenant":"a","plan":"pro"},"n":20} => 200 …"remaining":30,…"reservation":"$a"…
		POST /v1/reserve {"policy":"model","key":{"plan":"pro","tenant":"b"},"n":20} => 200 …"remaining":30,…"reservation":"$b"…
		POST /v1/extend {"reservation":"$a","n":30,"reserved":20} => 200 …"reserved":50,…
		POST /v1/settle {"reservation":"$a","actual":25} => 200 …"refunded":25,…
		POST /v1/peek {"policy":"model","key":{"tenant":"a","plan":"pro"}} => 200 …"remaining":25,…
		reload model: {limit: 10 per day per tenant}
		POST /v1/extend {"reservation":"$b","n":1} => 429 …
		POST /v1/settle {"reservation":"$b","actual":5} => 200 …"refunded":15,…
		POST /v1/peek {"policy":"model","key":{"tenant":"b"}} => 200 …"remaining":5,…
	`)
}

// TestReservationsOfShadows: a shadow allows what it would deny. Such a reservation holds nothing,
// and its calls succeed and change nothing. Others are as if they were enforced.
func TestReservationsOfShadows(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Policies = parsed(t, "  trial: {limits: {day: 10 per day, running: \"2 at once, for at most 30s\"}, shadow: true}\n  reported: {limit: 5 per day, count: reported}\n")
	})
	play(t, s, `
		POST /v1/reserve {"policy":"trial","n":2} => 200 …"reservation":"$a"…"held_until":…
		POST /v1/reserve {"policy":"trial","n":2} => 200 {"allowed":true,…"would":{"allowed":false,…"reservation":"$b"…"held_until":…
		POST /v1/extend {"reservation":"$b","n":3} => 200 …"reserved":0,…"held_until":…
		POST /v1/settle {"reservation":"$b","actual":5} => 200 {"policy":"trial","reserved":0,"actual":5,"refunded":0,"recorded":0}
		POST /v1/settle {"reservation":"$b"} => 200 {"policy":"trial","reserved":0,"actual":0,"refunded":0,"recorded":0}
		POST /v1/extend {"reservation":"$a","n":9} => 200 …"reserved":2,…
		POST /v1/settle {"reservation":"$a","actual":1} => 200 {"policy":"trial","reserved":2,"actual":1,"refunded":1,"recorded":0}
		POST /v1/peek {"policy":"trial"} => 200 …"used":1,…"used":0,…
		POST /v1/reserve {"policy":"reported"} => 400 …counts reported units…
		WEIR.RESERVE reported => -ERR …counts reported units…
	`)
}

// TestExtensionsOfShadows: where a shadow would deny the further units of an extension, the hold is
// renewed all the same.
func TestExtensionsOfShadows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil, func(c *Config) {
			c.Policies = parsed(t, "  trial: {limits: {day: 10 per day, running: \"2 at once, for at most 30s\"}, shadow: true}\n")
		})
		play(t, s, `
			POST /v1/reserve {"policy":"trial","n":2} => 200 …"reservation":"$a"…
			sleep 20s
			POST /v1/extend {"reservation":"$a","n":9} => 200 …"reserved":2,…
			sleep 20s
			POST /v1/settle {"reservation":"$a"} => 200 {"policy":"trial","reserved":2,"actual":2,"refunded":0,"recorded":0}
		`)
	})
}

// early is an engine whose clock is an hour ahead of this process's.
type early struct{ engine.Engine }

func (e early) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].At, calls[i].Given = time.Now().Add(time.Hour).UnixMicro(), true
	}
	e.Engine.Do(ctx, calls)
}

// TestReservationsExpireByTheStoresClock: where the store's clock is ahead, a settlement that comes
// too late stays one.
func TestReservationsExpireByTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, early{weir.NewMemory()})
		play(t, s, `
			let ann {"policy":"sms","key":{"phone":"+1"},"n":6,"ttl_ms":5000}
			POST /v1/reserve $ann => 200 …"reservation":"$late"…
			POST /v1/reserve {"policy":"sms","key":{"phone":"+2"},"ttl_ms":5000} => 200 …"reservation":"$settled"…
			POST /v1/settle {"reservation":"$settled","actual":0} => 200 …
			sleep 5s
			POST /v1/settle {"reservation":"$settled","actual":1} => 409 …
			3 times POST /v1/settle {"reservation":"$late","actual":1} => 410 …the grant of 6 units stays…
			POST /v1/settle {"reservation":"$late","actual":2} => 410 …the grant of 6 units stays…
			POST /v1/release {"reservation":"$late"} => 410 …the grant of 6 units stays…
			POST /v1/settle {"reservation":"$late"} => 410 …the grant of 6 units stays…
			POST /v1/extend {"reservation":"$late"} => 410 …the grant of 6 units stays…
		`)
		wantLeft(t, s, 4)
	})
}

// TestFailedSettlementsCanBeRetried: the store fails before or after it has settled. In every outage
// mode the settlement gets 503. It can be retried, and corrects once.
func TestFailedSettlementsCanBeRetried(t *testing.T) {
	for _, mode := range []string{"", "deny", "allow", "share"} {
		for kind, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
			for _, actual := range []int{0, 4, 9} {
				faulty := weirtest.NewFaulty(weir.NewMemory())
				var e engine.Engine = faulty
				policies := "  sms: {limit: 10 messages per day per phone}\n"
				if mode != "" {
					e = fallback.New(e, fallback.Deny, fallback.FailureThreshold(0))
					policies = strings.Replace(policies, "}", ", when-store-is-down: "+mode+"}", 1)
				}
				s, _ := newServer(t, e, func(c *Config) { c.Policies = parsed(t, policies) })
				name := reserveBy(t, s, smsReserve)
				what := fmt.Sprintf("%s, %s, %d used", mode, kind, actual)
				faulty.Break(fault)
				for range 2 {
					wantProblem(t, what, ask(s, "POST", "/v1/settle", settleBody(name, actual)), 503)
				}
				faulty.Restore()
				for range 2 {
					play(t, s, "# "+what+"\nPOST /v1/settle "+settleBody(name, actual)+" => 200 …")
					wantLeft(t, s, 10-actual)
				}
			}
		}
	}
}

// TestReservationsAreCounted: metrics count those that were opened and settled, and settlements and
// extensions that came too late. They count denials with a block, too.
func TestReservationsAreCounted(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Policies = parsed(t, "  sms: {limit: \"10 messages per day per phone, then block 1h\"}\n")
	})
	name := reserveBy(t, s, smsReserve)
	unknown := reserve.Name{Policy: "sms", ID: "x", Pairs: enforce.Pairs{{Name: "phone", Value: "+1"}}}.String()
	play(t, s, `
		let unknown `+unknown+`
		POST /v1/reserve {"policy":"sms","key":{"phone":"+2"},"n":11} => 200 {"allowed":false,…
		POST /v1/check {"policy":"sms","key":{"phone":"+2"}} => 200 {"allowed":false,…
		POST /v1/settle {"reservation":"$unknown","actual":1} => 410 …
		POST /v1/extend {"reservation":"$unknown"} => 410 …
		POST /v1/block {"policy":"sms","key":{"phone":"+3"},"for_ms":1} => 200 …
	`)
	for range 2 {
		play(t, s, "POST /v1/settle "+settleBody(name, 1)+" => 200 …")
	}
	play(t, s, `
		POST /v1/reserve {"policy":"sms","key":{"phone":"+4"},"n":1,"ttl_ms":60000} => 200 {"allowed":true,…
		GET /v1/stats => 200 …"reservations":{"opened":2,"settled":1,"expired":2,"open":1,"ended":0}…
	`)
	wantMetrics(t, s, `weir_reservations_total{event="opened",policy="sms"} 2`,
		`weir_reservations_total{event="settled",policy="sms"} 1`,
		`weir_reservations_total{event="expired",policy="sms"} 2`,
		`weir_blocked_denials_total{limit="limit",policy="sms"} 2`,
		`weir_decisions_total{outcome="blocked",policy="sms",protocol="http"} 1`,
		`weir_decisions_total{outcome="replayed",policy="sms",protocol="http"} 1`)
}

// TestIDsAreSharedByAllFronts: an id is one operation on every front.
func TestIDsAreSharedByAllFronts(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	play(t, s, `POST /v1/check {"policy":"sms","key":{"phone":"+1"},"n":6,"id":"order 1"} => 200 …`)
	var many []string
	for i := range 300 { // the ids are in one buffer, which is reused
		many = append(many, "WEIR.RECORD sms phone=+2 ID "+strconv.Itoa(i%100))
	}
	got := sendTo(t, plainly(s), many...)
	if n := strings.Count(got, "*10 "); n != 300 || strings.Count(got, " :0 :0 :1 ") < 200 {
		t.Errorf("%d answers of 300, %d of them repeated, want 200", n, strings.Count(got, " :0 :0 :1 "))
	}
	if got := sendTo(t, plainly(s), "WEIR.PEEK sms phone=+2"); !strings.HasPrefix(got, "*9 :0 :0 :-90 ") {
		t.Errorf("100 of 10 were recorded: %q", got)
	}
	c, err := plainly(s)()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "*6\r\n$10\r\nWEIR.CHECK\r\n$3\r\nsms\r\n$8\r\nphone=+1\r\n$1\r\n6\r\n$2\r\nID\r\n$7\r\norder 1\r\n")
	buf := make([]byte, 512)
	if n, err := c.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "*10\r\n:1\r\n:6\r\n:4\r\n") || !strings.HasSuffix(string(buf[:n]), ":0\r\n:0\r\n:1\r\n") {
		t.Errorf("%q, %v; want the first decision, repeated", buf[:n], err)
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="replayed",policy="sms",protocol="resp"} 201`)
}
