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
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// reserveBy makes a reservation and returns its id.
func reserveBy(t *testing.T, s *Server, body string) (id string) {
	t.Helper()
	return play(t, s, "POST /v1/reserve "+body+` => 200 …"reservation":"$id"…`)["id"]
}

func settleBody(id string, actual int) string {
	return fmt.Sprintf(`{"reservation":%q,"actual":%d}`, id, actual)
}

const smsReserve = `{"policy":"sms","key":{"phone":"+1"},"n":6}`

// wantLeft compares the units that are left of 10.
func wantLeft(t *testing.T, s *Server, n int) {
	t.Helper()
	play(t, s, fmt.Sprintf(`POST /v1/peek {"policy":"sms","key":{"phone":"+1"}} => 200 …"remaining":%d,…`, n))
}

// TestSettlementCorrectsTheCharge: a settlement gives back unused units and records extra
// ones. A denial reserves nothing.
func TestSettlementCorrectsTheCharge(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let sms "policy":"sms","key":{"phone":"+1"}
		POST /v1/reserve {$sms,"n":6} => 200 {"allowed":true,…"granted":6,"remaining":4,…"reservation":"$first","expires_at":"…
		POST /v1/reserve {$sms,"n":4} => 200 …"reservation":"$second"…
		POST /v1/reserve {$sms,"n":6} => 200 {"allowed":false,…
		! "reservation"
		POST /v1/settle {"reservation":"$first","actual":2} => 200 {"policy":"sms","reserved":6,"actual":2,"refunded":4,"recorded":0}
		POST /v1/settle {"reservation":"$second","actual":9} => 200 {"policy":"sms","reserved":4,"actual":9,"refunded":0,"recorded":5}
		POST /v1/peek {$sms} => 200 …"remaining":-1,…
		# a release
		POST /v1/reserve {"policy":"sms","key":{"phone":"+2"},"n":6} => 200 …"reservation":"$third"…
		POST /v1/release {"reservation":"$third"} => 200 …
		POST /v1/peek {"policy":"sms","key":{"phone":"+2"}} => 200 …"remaining":10,…
		POST /v1/reserve {"policy":"batch","n":9} => 200 …"reservation":"$part"…
		POST /v1/release {"reservation":"$part"} => 200 …"reserved":4,"actual":0,"refunded":4,…
	`)
}

// TestReservationsAreOfOneStore: a server with the same secret on another store rejects
// a reservation, over HTTP and RESP, and changes nothing.
func TestReservationsAreOfOneStore(t *testing.T) {
	secret := func(c *Config) { c.ReservationSecret = "a secret that both servers know" }
	first, _ := newServer(t, weir.NewMemory(), secret)
	second, _ := newServer(t, weir.NewMemory(), secret)
	for _, body := range []string{smsReserve, `{"policy":"sms","key":{"phone":"+1"},"n":4,"id":"an operation"}`} {
		id := reserveBy(t, first, body)
		play(t, second, `
			let id `+id+`
			POST /v1/settle {"reservation":"$id","actual":9} => 404 …another store…nothing was changed…
			POST /v1/release {"reservation":"$id"} => 404 …another store…nothing was changed…
			WEIR.SETTLE $id 9 => -ERR the reservation was made on another store…
		`)
		play(t, first, "POST /v1/settle "+settleBody(id, 1)+" => 200 …")
	}
	wantLeft(t, first, 8)
	wantLeft(t, second, 10)
}

// TestReservationsFollowTheStoresIdentity: while the store does not answer, its last
// known identity is used. A store without its data rejects older reservations. Without an
// identity no reservation is made.
func TestReservationsFollowTheStoresIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var id string
		var away error
		s, _ := newServer(t, nil, func(c *Config) {
			c.StoreIdentity = func(context.Context) (string, error) { return id, away }
		})
		settled := func(when, id string, want int) {
			t.Helper()
			play(t, s, fmt.Sprintf("# %s\nPOST /v1/release {\"reservation\":%q} => %d …", when, id, want))
		}
		away = weir.ErrUnavailable
		for range 30 {
			play(t, s, `POST /v1/reserve {"policy":"batch","n":1} => 503 …`)
		}
		play(t, s, `POST /v1/peek {"policy":"batch","n":4} => 200 …"allowed":true…`)
		id, away = "first", nil
		a, b := reserveBy(t, s, smsReserve), reserveBy(t, s, `{"policy":"sms","key":{"phone":"+2"}}`)
		away = weir.ErrUnavailable
		time.Sleep(20 * time.Second)
		settled("away for a while", a, 200)
		id, away = "second", nil
		time.Sleep(20 * time.Second)
		settled("after its data was lost", b, 404)
		settled("made since", reserveBy(t, s, `{"policy":"sms","key":{"phone":"+3"}}`), 200)
	})
}

// TestReservationsSettleOnce settles a reservation many times at once, on two servers
// with one store. An equal settlement gets the same answer; another number is rejected.
func TestReservationsSettleOnce(t *testing.T) {
	for _, c := range []struct{ actual, refunded, recorded, left int }{{5, 1, 0, 5}, {8, 0, 2, 2}, {0, 6, 0, 10}, {6, 0, 0, 4}} {
		store := weir.NewMemory()
		secret := func(c *Config) { c.ReservationSecret = "a secret that both servers know" }
		first, _ := newServer(t, store, secret)
		second, _ := newServer(t, store, secret)
		id := reserveBy(t, first, smsReserve)
		want := fmt.Sprintf(`{"policy":"sms","reserved":6,"actual":%d,"refunded":%d,"recorded":%d}`, c.actual, c.refunded, c.recorded)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if r := ask([]*Server{first, second}[i%2], "POST", "/v1/settle", settleBody(id, c.actual)); r.status != 200 || r.body != want+"\n" {
					t.Errorf("%d %s, want %s", r.status, r.body, want)
				}
			})
		}
		all.Wait()
		play(t, first, "POST /v1/settle "+settleBody(id, 7)+" => 409 …settled already…")
		wantLeft(t, second, c.left)
	}
}

// TestSettlementsAreRepeatedForALimitedTime: a settlement can be repeated for a minute
// and for the life of its reservation. After that it is rejected as already settled.
func TestSettlementsAreRepeatedForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		play(t, s, `
			let six "policy":"sms","key":{"phone":"+1"},"n":6
			POST /v1/reserve {$six,"ttl_ms":90000} => 200 …"reservation":"$long"…
			POST /v1/settle {"reservation":"$long","actual":2} => 200 …
			sleep 1m29.999999s
			POST /v1/settle {"reservation":"$long","actual":2} => 200 …
			POST /v1/settle {"reservation":"$long","actual":3} => 409 …
			sleep 1us
			POST /v1/settle {"reservation":"$long","actual":2} => 409 …
			POST /v1/settle {"reservation":"$long","actual":3} => 409 …
			POST /v1/peek {$six} => 200 …"remaining":8,…
			POST /v1/reserve {$six,"ttl_ms":1000} => 200 …"reservation":"$short"…
			POST /v1/settle {"reservation":"$short","actual":8} => 200 …
			sleep 59s
			POST /v1/settle {"reservation":"$short","actual":8} => 200 …
			POST /v1/peek {$six} => 200 …"remaining":0,…
		`)
	})
}

// TestReservationsExpire: a reservation expires by the clock of the store, and its units
// stay charged.
func TestReservationsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		play(t, s, `
			let one "policy":"sms","key":{"phone":"+1"},"n":1
			POST /v1/reserve {$one,"ttl_ms":1000} => 200 …"reservation":"$short","expires_at":"`+in(time.Second)+`"…
			POST /v1/reserve {$one} => 200 …"reservation":"$long"…
			sleep 999999us
			POST /v1/reserve {$one,"ttl_ms":1} => 200 …"reservation":"$now"…
			POST /v1/settle {"reservation":"$now","actual":0} => 200 …
			sleep 1us
			POST /v1/settle {"reservation":"$short","actual":0} => 410 …has expired…stay as they were granted…
			POST /v1/settle {"reservation":"$short","actual":0} => 410 …has expired…stay as they were granted…
			POST /v1/peek {$one} => 200 …"remaining":8,…
			sleep 23h59m58.999999s
			POST /v1/settle {"reservation":"$long","actual":0} => 200 …
			sleep 1us
			POST /v1/settle {"reservation":"$long","actual":1} => 409 …
			POST /v1/reserve {$one} => 200 …"reservation":"$late"…
			sleep 24h
			POST /v1/settle {"reservation":"$late","actual":0} => 410 …
			POST /v1/settle {"reservation":"$long","actual":0} => 409 …
		`)
	})
}

// TestForgedReservationsAreUnknown: an id that was changed, cut or forged is unknown, and
// so is one of a removed policy.
func TestForgedReservationsAreUnknown(t *testing.T) {
	s, _ := newServer(t, nil)
	stranger, _ := newServer(t, nil)
	id := reserveBy(t, s, smsReserve)
	ids := []string{"", "AQID", "not base64!", id + "A", id[:len(id)-2], reserveBy(t, stranger, smsReserve)}
	for i := range id {
		c := byte('A')
		if id[i] == c {
			c = 'B'
		}
		ids = append(ids, id[:i]+string(c)+id[i+1:])
	}
	for _, bad := range ids {
		wantProblem(t, bad, ask(s, "POST", "/v1/settle", settleBody(bad, 0)), 404, "no such reservation")
	}
	wantLeft(t, s, 4)
	play(t, s, `
		let id `+id+`
		reload sms: {limit: 10 messages per day per phone per sender}
		POST /v1/settle {"reservation":"$id","actual":0} => 404 …other dimensions…
		reload fresh: {limit: 1 per minute}
		POST /v1/settle {"reservation":"$id","actual":0} => 404 …no policy "sms"…
		# under other numbers
		reload sms: {limit: 20 messages per day per phone}
		POST /v1/settle {"reservation":"$id","actual":1} => 200 …
		POST /v1/peek {"policy":"sms","key":{"phone":"+1"}} => 200 …"remaining":19,…
	`)
}

func TestBadSettlementsChangeNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	// More than a history holds, more often than a reservation can be claimed.
	tooMany := strings.Repeat(`POST /v1/settle {"reservation":"$first","actual":2251799813685247} => 400 …too many units…
		`, 70)
	play(t, s, `
		let sms "policy":"sms","key":{"phone":"+1"}
		POST /v1/reserve {$sms,"ttl_ms":86400001} => 400 …1 to 86400000…
		POST /v1/reserve {$sms,"ttl_ms":2251799813685247} => 400 …1 to 86400000…
		POST /v1/reserve {$sms,"ttl_ms":0} => 400 …1 or more…
		POST /v1/reserve {$sms,"at":"x"} => 400 …takes policy, key, n, id, ttl_ms…
		POST /v1/settle => 400 …send {"reservation"…
		POST /v1/release => 400 …send {"reservation"…
		POST /v1/settle {"actual":1} => 400 …"reservation" is missing…
		POST /v1/settle {"reservation":"x","actual":-1} => 400 …whole number…
		POST /v1/release {"reservation":"x","actual":1} => 400 …takes reservation…
		POST /v1/peek {$sms} => 200 …"remaining":10,…
		POST /v1/reserve {$sms} => 200 …"reservation":"$first"…
		POST /v1/reserve {$sms} => 200 …"reservation":"$second"…
		`+tooMany+`
		# bad input settled nothing
		POST /v1/settle {"reservation":"$first","actual":0} => 200 …
		POST /v1/settle {"reservation":"$second","actual":0} => 200 …
	`)
}

// TestSettlementThatFillsTheHistoryCanBeRepeated: the same settlement gets the same answer where
// its own correction left no room for another. Another number is rejected as settled.
func TestSettlementThatFillsTheHistoryCanBeRepeated(t *testing.T) {
	for line, most := range map[string]string{"1 per day per user, burst 10": "20000", "10 per day per user": "2000000000000000"} {
		s, _ := newServer(t, nil, func(c *Config) { c.Policies = parsed(t, "  p: {limit: "+strconv.Quote(line)+"}\n") })
		play(t, s, `
			# `+line+`
			POST /v1/reserve {"policy":"p","key":{"user":"ann"},"n":5} => 200 …"reservation":"$id"…
			POST /v1/reserve {"policy":"p","key":{"user":"ann"}} => 200 …"reservation":"$other"…
			POST /v1/settle {"reservation":"$id","actual":`+most+`} => 200 …"reserved":5,…
			POST /v1/settle {"reservation":"$id","actual":`+most+`} => 200 …"reserved":5,…
			WEIR.SETTLE $id `+most+` => *4 :5 :`+most+` :0 …
			POST /v1/settle {"reservation":"$other","actual":`+most+`} => 400 …too many units…
			POST /v1/settle {"reservation":"$id","actual":2251799813685247} => 409 …settled already…
			POST /v1/settle {"reservation":"$id","actual":15000} => 409 …settled already…
		`)
	}
}

// TestFailedSettlementsCanBeRetried: the store fails between the claim and the correction,
// before or after it made the correction. In every outage mode the settlement gets 503. It can
// be retried, and corrects once.
func TestFailedSettlementsCanBeRetried(t *testing.T) {
	for _, mode := range []string{"", "deny", "allow", "share"} {
		for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
			for _, actual := range []int{0, 4, 9} {
				faulty := weirtest.NewFaulty(weir.NewMemory())
				var e engine.Engine = corrections{faulty}
				policies := "  sms: {limit: 10 messages per day per phone}\n"
				if mode != "" {
					e = fallback.New(e, fallback.Deny)
					policies = strings.Replace(policies, "}", ", when-store-is-down: "+mode+"}", 1)
				}
				s, _ := newServer(t, e, func(c *Config) { c.Policies = parsed(t, policies) })
				id := reserveBy(t, s, smsReserve)
				what := fmt.Sprintf("%s, %s, %d used", mode, name, actual)
				faulty.Break(fault)
				for range 2 {
					wantProblem(t, what, ask(s, "POST", "/v1/settle", settleBody(id, actual)), 503)
				}
				faulty.Restore()
				for range 2 {
					play(t, s, "# "+what+"\nPOST /v1/settle "+settleBody(id, actual)+" => 200 …")
					wantLeft(t, s, 10-actual)
				}
			}
		}
	}
}

// corrections is a store that fails operations with an id, except claims.
type corrections struct{ *weirtest.Faulty }

var claimed = weir.NewMemory()

func (c corrections) Do(ctx context.Context, calls []engine.Call) {
	if calls[0].Rules.Name == "weir.reservations" { // of all calls: no batch has claims
		claimed.Do(ctx, calls)
		return
	}
	c.Faulty.Do(ctx, calls)
}

// TestReservationsFollowTheirPolicy: a shadow settles the units it would have granted, a
// policy that counts reports charges all used units, and the plan is kept.
func TestReservationsFollowTheirPolicy(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Policies = parsed(t, `  shadow: {limit: 5 per day, shadow: true}
  reported: {limit: 5 per day, count: reported}
  planned: {limit: 1 per day per user, plan-by: plan, plans: {pro: 10 per day}}
`)
	})
	play(t, s, `
		POST /v1/reserve {"policy":"shadow","n":4} => 200 …"reservation":"$a"…
		POST /v1/settle {"reservation":"$a","actual":2} => 200 …"reserved":4,"actual":2,"refunded":2,"recorded":0}
		POST /v1/peek {"policy":"shadow"} => 200 …"remaining":3,…
		# it would have denied
		POST /v1/reserve {"policy":"shadow","n":4} => 200 …"reservation":"$b"…
		POST /v1/settle {"reservation":"$b","actual":2} => 200 …"reserved":0,"actual":2,"refunded":0,"recorded":2}
		POST /v1/peek {"policy":"shadow"} => 200 …"remaining":1,…
		POST /v1/reserve {"policy":"reported","n":4} => 200 …"reservation":"$c"…
		POST /v1/settle {"reservation":"$c","actual":2} => 200 …"reserved":0,"actual":2,"refunded":0,"recorded":2}
		POST /v1/peek {"policy":"reported"} => 200 …"remaining":3,…
		let ann "policy":"planned","key":{"user":"ann","plan":"pro"}
		POST /v1/reserve {$ann,"n":9} => 200 …"reservation":"$d"…
		POST /v1/settle {"reservation":"$d","actual":2} => 200 …"reserved":9,"actual":2,"refunded":7,"recorded":0}
		POST /v1/peek {$ann} => 200 …"remaining":8,…
	`)
}

// TestReservationsSettleAcrossFronts: a reservation of one front can be settled on
// another, once.
func TestReservationsSettleAcrossFronts(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let sms "policy":"sms","key":{"phone":"+1"}
		WEIR.RESERVE sms phone=+1 6 TTL 60000 => *11 :1 … :0 :0 $… $id :…
		POST /v1/settle {"reservation":"$id","actual":2} => 200 {"policy":"sms","reserved":6,"actual":2,"refunded":4,"recorded":0}
		POST /v1/reserve {$sms,"n":6} => 200 …"reservation":"$first"…
		POST /v1/reserve {$sms} => 200 …"reservation":"$second"…
		WEIR.SETTLE $id 1 => -SETTLED the reservation is settled already; nothing was changed
		WEIR.SETTLE $first 8 => *4 :6 :8 :0 :2
		WEIR.RELEASE $second => *4 :1 :0 :1 :0
		WEIR.RELEASE x => -ERR there is no such reservation: …
		WEIR.RESERVE sms phone=+1 10 => *11 :0 :0 :0 …
		WEIR.RESERVE sms phone=+1 TTL 999999999999 => -ERR TTL must be 1 to 86400000: the longest window of sms, …
		POST /v1/peek {$sms} => 200 …"remaining":0,…
		metric weir_decisions_total{outcome="allowed",policy="sms",protocol="resp"} 1
		metric weir_decisions_total{outcome="denied",policy="sms",protocol="resp"} 1
		metric weir_decisions_total{outcome="recorded",policy="sms",protocol="resp"} 1
		metric weir_decisions_total{outcome="refunded",policy="sms",protocol="resp"} 1
	`)
}

// TestRedisReservationsKeepTheirPlan: a reservation is settled under the plan that it was
// made with.
func TestRedisReservationsKeepTheirPlan(t *testing.T) {
	s, _ := variedServer(t, nil)
	play(t, s, `
		WEIR.RESERVE api plan=pro tenant=a 3 => *11 :1 … :0 :0 $… $id :…
		WEIR.PEEK api plan=pro tenant=a => *9 :0 :0 :0 …
		WEIR.SETTLE $id 1 => *4 :3 :1 :2 :0
		WEIR.PEEK api plan=pro tenant=a => *9 :1 :1 :2 …
		# a shadow charged no units that it would have denied
		WEIR.RESERVE watch user=u 5 => *11 :1 … $0  :$at :0 :0 $… $other :…
		WEIR.RELEASE $other => *4 :0 :0 :0 :0
	`)
}

// TestRepeatedRedisReservationIsChargedOnce: a repeated WEIR.RESERVE returns another id
// of the same reservation, also over HTTP. One of the ids settles it; the others get the
// same answer for the same units.
func TestRepeatedRedisReservationIsChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let six "policy":"sms","key":{"phone":"+1"},"n":6
		WEIR.RESERVE sms phone=+1 6 ID job TTL 60000 => *12 :1 … :0 :0 $… $a :… :0
		WEIR.RESERVE sms phone=+1 6 TTL 60000 ID job => *12 :1 … :0 :0 $… $b :… :1
		WEIR.RESERVE sms phone=+1 6 ID job => *12 :1 … :0 :0 $… $c :… :1
		POST /v1/reserve {$six,"id":"job"} => 200 …"reservation":"$d"…
		POST /v1/peek {$six} => 200 …"remaining":4,…
		WEIR.SETTLE $a 1 => *4 :6 :1 :5 :0
		WEIR.SETTLE $a 2 => -SETTLED …
		WEIR.SETTLE $b 2 => -SETTLED …
		WEIR.SETTLE $c 1 => *4 :6 :1 :5 :0
		WEIR.SETTLE $d 1 => *4 :6 :1 :5 :0
		WEIR.SETTLE $d 2 => -SETTLED …
	`)
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
	c := must.Get(plainly(s)())(t)
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "*6\r\n$10\r\nWEIR.CHECK\r\n$3\r\nsms\r\n$8\r\nphone=+1\r\n$1\r\n6\r\n$2\r\nID\r\n$7\r\norder 1\r\n")
	buf := make([]byte, 512)
	if n, err := c.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "*10\r\n:1\r\n:6\r\n:4\r\n") || !strings.HasSuffix(string(buf[:n]), ":0\r\n:0\r\n:1\r\n") {
		t.Errorf("%q, %v; want the first decision, repeated", buf[:n], err)
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="replayed",policy="sms",protocol="resp"} 201`)
}
