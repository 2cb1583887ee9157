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

// sharedSecret is the secret of servers that settle each other's reservations.
func sharedSecret(c *Config) { c.ReservationSecret = "a secret that both servers know" }

const smsReserve = `{"policy":"sms","key":{"phone":"+1"},"n":6}`

// wantLeft compares the units that are left of 10.
func wantLeft(t *testing.T, s *Server, n int) {
	t.Helper()
	play(t, s, fmt.Sprintf(`POST /v1/peek {"policy":"sms","key":{"phone":"+1"}} => 200 …"remaining":%d,…`, n))
}

// TestReservationsAreOfOneStore: a server with the same secret on another store rejects
// a reservation, over HTTP and RESP, and changes nothing.
func TestReservationsAreOfOneStore(t *testing.T) {
	first, _ := newServer(t, weir.NewMemory(), sharedSecret)
	second, _ := newServer(t, weir.NewMemory(), sharedSecret)
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

// early is an engine whose clock is an hour ahead of this process's.
type early struct{ engine.Engine }

func (e early) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].At, calls[i].Given = time.Now().Add(time.Hour).UnixMicro(), true
	}
	e.Engine.Do(ctx, calls)
}

// TestReservationsExpireByTheStoresClock: where the store's clock is ahead, a settlement that comes
// too late stays one, and is no earlier settlement of another.
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
			3 times POST /v1/settle {"reservation":"$late","actual":1} => 410 …its 6 units stay…
			3 times POST /v1/settle {"reservation":"$late","actual":2} => 410 …its 6 units stay…
			POST /v1/release {"reservation":"$late"} => 410 …its 6 units stay…
			POST /v1/settle {"reservation":"$late"} => 410 …its 6 units stay…
		`)
		wantLeft(t, s, 4)
	})
}

// TestReservationsSettleOnce settles a reservation many times at once, on two servers
// with one store. An equal settlement gets the same answer; another number is rejected.
func TestReservationsSettleOnce(t *testing.T) {
	for _, c := range []struct{ actual, refunded, recorded, left int }{{5, 1, 0, 5}, {8, 0, 2, 2}, {0, 6, 0, 10}, {6, 0, 0, 4}} {
		store := weir.NewMemory()
		first, _ := newServer(t, store, sharedSecret)
		second, _ := newServer(t, store, sharedSecret)
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
