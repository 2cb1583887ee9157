package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/weirtest"
)

// reserved is the answer to /v1/reserve.
type reserved struct {
	decision
	Reservation string `json:"reservation"`
	ExpiresAt   string `json:"expires_at"`
}

func reserveBy(t *testing.T, s *Server, body string) (got reserved) {
	t.Helper()
	r := ask(s, "POST", "/v1/reserve", body)
	if r.status != 200 {
		t.Fatalf("reserve %s: %d %s", body, r.status, r.body)
	}
	readStrictly(t, r.body, &got)
	return got
}

func settleBody(id string, actual int) string {
	return fmt.Sprintf(`{"reservation":%q,"actual":%d}`, id, actual)
}

const smsReserve = `{"policy":"sms","key":{"phone":"+1"},"n":6}`

func left(t *testing.T, s *Server) int64 {
	t.Helper()
	return decide(t, s, "/v1/peek", `{"policy":"sms","key":{"phone":"+1"}}`).Remaining
}

// TestSettlementCorrectsTheCharge: a settlement gives back unused units and records extra
// ones. A denial reserves nothing.
func TestSettlementCorrectsTheCharge(t *testing.T) {
	s, _ := newServer(t, nil)
	first := reserveBy(t, s, smsReserve)
	if !first.Allowed || first.Granted != 6 || first.Remaining != 4 || first.Reservation == "" || first.ExpiresAt == "" {
		t.Errorf("%+v, want 6 of 10 and a reservation", first)
	}
	second := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":4}`)
	r := ask(s, "POST", "/v1/reserve", smsReserve)
	var denial map[string]any
	json.Unmarshal([]byte(r.body), &denial)
	if _, is := denial["reservation"]; is || denial["allowed"] != false {
		t.Errorf("a denial: %s, want no reservation", r.body)
	}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/settle", settleBody(first.Reservation, 2), `{"policy":"sms","reserved":6,"actual":2,"refunded":4,"recorded":0}`},
		{"/v1/settle", settleBody(second.Reservation, 9), `{"policy":"sms","reserved":4,"actual":9,"refunded":0,"recorded":5}`},
	} {
		if r := ask(s, "POST", c.path, c.body); r.status != 200 || r.body != c.want+"\n" {
			t.Errorf("%s %s: %d %s, want %s", c.path, c.body, r.status, r.body, c.want)
		}
	}
	if n := left(t, s); n != 10-2-9 {
		t.Errorf("%d are left, want -1", n)
	}
	s, _ = newServer(t, nil)
	if r := ask(s, "POST", "/v1/release", fmt.Sprintf(`{"reservation":%q}`, reserveBy(t, s, smsReserve).Reservation)); r.status != 200 || left(t, s) != 10 {
		t.Errorf("released: %d %s, and %d are left", r.status, r.body, left(t, s))
	}
	part := reserveBy(t, s, `{"policy":"batch","n":9}`)
	if r := ask(s, "POST", "/v1/release", fmt.Sprintf(`{"reservation":%q}`, part.Reservation)); !strings.Contains(r.body, `"reserved":4,"actual":0,"refunded":4,`) {
		t.Errorf("a part of 4: %s", r.body)
	}
}

// TestReservationsAreOfOneStore: a server with the same secret on another store rejects
// a reservation, over HTTP and RESP, and changes nothing.
func TestReservationsAreOfOneStore(t *testing.T) {
	secret := func(c *Config) { c.ReservationSecret = "a secret that both servers know" }
	first, _ := newServer(t, weir.NewMemory(), secret)
	second, _ := newServer(t, weir.NewMemory(), secret, withRESP)
	start(t, second)
	for _, body := range []string{smsReserve, `{"policy":"sms","key":{"phone":"+1"},"n":4,"id":"an operation"}`} {
		id := reserveBy(t, first, body).Reservation
		for path, body := range map[string]string{"/v1/settle": settleBody(id, 9), "/v1/release": fmt.Sprintf(`{"reservation":%q}`, id)} {
			wantProblem(t, path, ask(second, "POST", path, body), 404, "another store", "nothing was changed")
		}
		if got := sendTo(t, plainly(second), "WEIR.SETTLE "+id+" 9"); !strings.HasPrefix(got, "-ERR the reservation was made on another store") {
			t.Errorf("over RESP: %q", got)
		}
		if r := ask(first, "POST", "/v1/settle", settleBody(id, 1)); r.status != 200 {
			t.Errorf("on its own store: %d %s", r.status, r.body)
		}
	}
	if a, b := left(t, first), left(t, second); a != 8 || b != 10 {
		t.Errorf("%d and %d are left, want 8 and 10", a, b)
	}
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
		settled := func(when, reservation string, want int) {
			t.Helper()
			if r := ask(s, "POST", "/v1/release", fmt.Sprintf(`{"reservation":%q}`, reservation)); r.status != want {
				t.Errorf("%s: %d %s, want %d", when, r.status, r.body, want)
			}
		}
		away = weir.ErrUnavailable
		wantProblem(t, "never seen", ask(s, "POST", "/v1/reserve", `{"policy":"batch","n":1}`), 503)
		id, away = "first", nil
		a, b := reserveBy(t, s, smsReserve).Reservation, reserveBy(t, s, `{"policy":"sms","key":{"phone":"+2"}}`).Reservation
		away = weir.ErrUnavailable
		time.Sleep(20 * time.Second)
		settled("away for a while", a, 200)
		id, away = "second", nil
		time.Sleep(20 * time.Second)
		settled("after its data was lost", b, 404)
		settled("made since", reserveBy(t, s, `{"policy":"sms","key":{"phone":"+3"}}`).Reservation, 200)
	})
}

// TestReservationsSettleOnce settles a reservation many times at once, on two servers
// with one store. An equal settlement gets the same answer; another number is rejected.
func TestReservationsSettleOnce(t *testing.T) {
	for name, c := range map[string]struct {
		actual int
		want   string
		left   int64
	}{
		"less": {5, `{"policy":"sms","reserved":6,"actual":5,"refunded":1,"recorded":0}`, 5},
		"more": {8, `{"policy":"sms","reserved":6,"actual":8,"refunded":0,"recorded":2}`, 2},
		"none": {0, `{"policy":"sms","reserved":6,"actual":0,"refunded":6,"recorded":0}`, 10},
		"all":  {6, `{"policy":"sms","reserved":6,"actual":6,"refunded":0,"recorded":0}`, 4},
	} {
		store := weir.NewMemory()
		secret := func(c *Config) { c.ReservationSecret = "a secret that both servers know" }
		first, _ := newServer(t, store, secret)
		second, _ := newServer(t, store, secret)
		id := reserveBy(t, first, smsReserve).Reservation
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if r := ask([]*Server{first, second}[i%2], "POST", "/v1/settle", settleBody(id, c.actual)); r.status != 200 || r.body != c.want+"\n" {
					t.Errorf("%s: %d %s, want %s", name, r.status, r.body, c.want)
				}
			})
		}
		all.Wait()
		wantProblem(t, name+", and other units", ask(first, "POST", "/v1/settle", settleBody(id, 7)), 409, "settled already")
		if n := left(t, second); n != c.left {
			t.Errorf("%s: %d are left, want %d", name, n, c.left)
		}
	}
}

// TestSettlementsAreRepeatedForALimitedTime: a settlement can be repeated for a minute
// and for the life of its reservation. After that it is rejected as already settled.
func TestSettlementsAreRepeatedForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		id := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":6,"ttl_ms":90000}`).Reservation
		settle := func(actual, status int) {
			t.Helper()
			if r := ask(s, "POST", "/v1/settle", settleBody(id, actual)); r.status != status {
				t.Errorf("%d: status %d, %s; want %d", actual, r.status, r.body, status)
			}
		}
		settle(2, 200)
		time.Sleep(90*time.Second - time.Microsecond)
		settle(2, 200)
		settle(3, 409)
		time.Sleep(time.Microsecond)
		settle(2, 409)
		settle(3, 410)
		if n := left(t, s); n != 8 {
			t.Errorf("%d are left, want 8", n)
		}
		id = reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":6,"ttl_ms":1000}`).Reservation
		settle(8, 200)
		time.Sleep(59 * time.Second)
		settle(8, 200)
		if n := left(t, s); n != 0 {
			t.Errorf("%d are left, want none", n)
		}
	})
}

// TestReservationsExpire: a reservation expires by the clock of the store, and its units
// stay charged.
func TestReservationsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		short := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":1,"ttl_ms":1000}`)
		long := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":1}`)
		if at, _ := time.Parse(time.RFC3339Nano, short.At); short.ExpiresAt != at.Add(time.Second).Format("2006-01-02T15:04:05.000000Z") {
			t.Errorf("granted at %s, expires at %s, want a second later", short.At, short.ExpiresAt)
		}
		time.Sleep(time.Second - time.Microsecond)
		if r := ask(s, "POST", "/v1/settle", settleBody(reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":1,"ttl_ms":1}`).Reservation, 0)); r.status != 200 {
			t.Errorf("at once: %d %s", r.status, r.body)
		}
		time.Sleep(time.Microsecond)
		for range 2 {
			wantProblem(t, "a second later", ask(s, "POST", "/v1/settle", settleBody(short.Reservation, 0)), 410, "has expired", "stay as they were granted")
		}
		if n := left(t, s); n != 8 {
			t.Errorf("%d are left, want 8", n)
		}
		time.Sleep(24*time.Hour - time.Second - time.Microsecond)
		if r := ask(s, "POST", "/v1/settle", settleBody(long.Reservation, 0)); r.status != 200 {
			t.Errorf("a moment before the window is over: %d %s", r.status, r.body)
		}
		time.Sleep(time.Microsecond)
		wantProblem(t, "after the window", ask(s, "POST", "/v1/settle", settleBody(long.Reservation, 1)), 410)
		late := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":1}`)
		time.Sleep(24 * time.Hour)
		wantProblem(t, "never settled", ask(s, "POST", "/v1/settle", settleBody(late.Reservation, 0)), 410)
		wantProblem(t, "long after", ask(s, "POST", "/v1/settle", settleBody(long.Reservation, 0)), 409)
	})
}

// TestForgedReservationsAreUnknown: an id that was changed, cut or forged is unknown, and
// so is one of a removed policy.
func TestForgedReservationsAreUnknown(t *testing.T) {
	s, _ := newServer(t, nil)
	stranger, _ := newServer(t, nil)
	id := reserveBy(t, s, smsReserve).Reservation
	ids := []string{"", "AQID", "not base64!", id + "A", id[:len(id)-2], reserveBy(t, stranger, smsReserve).Reservation}
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
	if again := reserveBy(t, s, smsReserve); again.Allowed {
		t.Error("made-up ids gave units back")
	}
	reload(t, s, "  sms: {limit: 10 messages per day per phone per sender}\n")
	wantProblem(t, "other dimensions", ask(s, "POST", "/v1/settle", settleBody(id, 0)), 404, "other dimensions")
	reload(t, s, "  fresh: {limit: 1 per minute}\n")
	wantProblem(t, "no policy", ask(s, "POST", "/v1/settle", settleBody(id, 0)), 404, `no policy "sms"`)
	reload(t, s, "  sms: {limit: 20 messages per day per phone}\n")
	if r := ask(s, "POST", "/v1/settle", settleBody(id, 1)); r.status != 200 || left(t, s) != 19 {
		t.Errorf("under other numbers: %d %s, %d are left; want 19", r.status, r.body, left(t, s))
	}
}

func TestBadSettlementsChangeNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, c := range []struct{ path, body, want string }{
		{"/v1/reserve", `{"policy":"sms","key":{"phone":"+1"},"ttl_ms":86400001}`, "1 to 86400000"},
		{"/v1/reserve", `{"policy":"sms","key":{"phone":"+1"},"ttl_ms":2251799813685247}`, "1 to 86400000"},
		{"/v1/reserve", `{"policy":"sms","key":{"phone":"+1"},"ttl_ms":0}`, "1 or more"},
		{"/v1/reserve", `{"policy":"sms","key":{"phone":"+1"},"at":"x"}`, "takes policy, key, n, id, ttl_ms"},
		{"/v1/settle", ``, `send {"reservation"`},
		{"/v1/release", ``, `send {"reservation"`},
		{"/v1/settle", `{"actual":1}`, `"reservation" is missing`},
		{"/v1/settle", `{"reservation":"x","actual":-1}`, "whole number"},
		{"/v1/release", `{"reservation":"x","actual":1}`, "takes reservation"},
	} {
		wantProblem(t, c.path+" "+c.body, ask(s, "POST", c.path, c.body), 400, c.want)
	}
	if n := left(t, s); n != 10 {
		t.Errorf("bad input left %d of 10", n)
	}
	first, second := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"}}`), reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"}}`)
	for range 3 {
		wantProblem(t, "more than a history holds", ask(s, "POST", "/v1/settle", settleBody(first.Reservation, int(weir.MaxUnits))), 400, "too many units")
	}
	for _, r := range []reserved{first, second} {
		if r := ask(s, "POST", "/v1/settle", settleBody(r.Reservation, 0)); r.status != 200 {
			t.Errorf("bad input settled a reservation: %d %s", r.status, r.body)
		}
	}
}

// TestFailedSettlementsCanBeRetried: the store fails between the claim and the
// correction, before or after it made the correction. The same settlement can be retried,
// and corrects once.
func TestFailedSettlementsCanBeRetried(t *testing.T) {
	for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
		for _, actual := range []int{0, 4, 9} {
			faulty := weirtest.NewFaulty(weir.NewMemory())
			s, _ := newServer(t, corrections{faulty})
			id := reserveBy(t, s, smsReserve).Reservation
			faulty.Break(fault)
			for range 2 {
				wantProblem(t, name, ask(s, "POST", "/v1/settle", settleBody(id, actual)), 503)
			}
			faulty.Restore()
			for range 2 {
				if r := ask(s, "POST", "/v1/settle", settleBody(id, actual)); r.status != 200 || left(t, s) != int64(10-actual) {
					t.Errorf("%s, %d used: %d %s, %d are left", name, actual, r.status, r.body, left(t, s))
				}
			}
		}
	}
}

// TestSettlementsNeedTheStore: in every outage mode a settlement gets 503 while the store
// is away, and succeeds when it is back.
func TestSettlementsNeedTheStore(t *testing.T) {
	for _, mode := range []string{"deny", "allow", "share"} {
		for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
			for _, actual := range []int{4, 9} {
				faulty := weirtest.NewFaulty(weir.NewMemory())
				s, _ := newServer(t, fallback.New(corrections{faulty}, fallback.Deny), func(c *Config) {
					c.Policies = parsed(t, "  sms: {limit: 10 messages per day per phone, when-store-is-down: "+mode+"}\n")
				})
				id := reserveBy(t, s, smsReserve).Reservation
				faulty.Break(fault)
				wantProblem(t, mode+", "+name, ask(s, "POST", "/v1/settle", settleBody(id, actual)), 503)
				faulty.Restore()
				if r := ask(s, "POST", "/v1/settle", settleBody(id, actual)); r.status != 200 || left(t, s) != int64(10-actual) {
					t.Errorf("%s, %s, %d used: %d %s, %d are left", mode, name, actual, r.status, r.body, left(t, s))
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
	for _, c := range []struct {
		name, reserve, want string
		left                int64
	}{
		{"a shadow", `{"policy":"shadow","n":4}`, `"reserved":4,"actual":2,"refunded":2,"recorded":0`, 3},
		{"a shadow that would have denied", `{"policy":"shadow","n":4}`, `"reserved":0,"actual":2,"refunded":0,"recorded":2`, 1},
		{"reports", `{"policy":"reported","n":4}`, `"reserved":0,"actual":2,"refunded":0,"recorded":2`, 3},
		{"a plan", `{"policy":"planned","key":{"user":"ann","plan":"pro"},"n":9}`, `"reserved":9,"actual":2,"refunded":7,"recorded":0`, 8},
	} {
		got := ask(s, "POST", "/v1/reserve", c.reserve)
		_, id, _ := strings.Cut(got.body, `"reservation":"`)
		id, _, _ = strings.Cut(id, `"`)
		if r := ask(s, "POST", "/v1/settle", settleBody(id, 2)); !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %s, want %s", c.name, r.body, c.want)
		}
		if r := ask(s, "POST", "/v1/peek", c.reserve); !strings.Contains(r.body, fmt.Sprintf(`"remaining":%d,`, c.left)) {
			t.Errorf("%s: %s, want %d left", c.name, r.body, c.left)
		}
	}
}
