package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
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

// holdAnswer is an answer to /v1/reserve or /v1/extend.
type holdAnswer struct {
	Reservation string `json:"reservation"`
	ExpiresAt   string `json:"expires_at"`
	HeldUntil   string `json:"held_until"`
}

// holding sends a request that answers with a reservation.
func holding(t *testing.T, s *Server, path, body string) (got holdAnswer) {
	t.Helper()
	r := ask(s, "POST", path, body)
	if err := json.Unmarshal([]byte(r.body), &got); r.status != 200 || err != nil || got.Reservation == "" {
		t.Fatalf("%s %s: %d %s", path, body, r.status, r.body)
	}
	return got
}

func tokenBody(token string) string { return fmt.Sprintf(`{"reservation":%q}`, token) }

// wantCounted compares the units of ann that count per day and that are held.
func wantCounted(t *testing.T, s *Server, day, running int64) {
	t.Helper()
	var got struct{ Limits []struct{ Used int64 } }
	if r := ask(s, "POST", "/v1/peek", renderReserve); json.Unmarshal([]byte(r.body), &got) != nil || len(got.Limits) != 2 || got.Limits[0].Used != day || got.Limits[1].Used != running {
		t.Errorf("%s, want %d a day and %d held", r.body, day, running)
	}
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000000Z") }

// TestSettlementsEndHolds: a settlement without actual keeps the charge, one with it
// corrects the charge, a release takes it back, and each ends the hold. Retries get the
// same answer.
func TestSettlementsEndHolds(t *testing.T) {
	for _, c := range []struct {
		path, body, want string
		day              int64
	}{
		{"/v1/settle", `{"reservation":%q}`, `{"policy":"render","reserved":2,"actual":2,"refunded":0,"recorded":0}`, 2},
		{"/v1/settle", `{"reservation":%q,"actual":1}`, `{"policy":"render","reserved":2,"actual":1,"refunded":1,"recorded":0}`, 1},
		{"/v1/settle", `{"reservation":%q,"actual":5}`, `{"policy":"render","reserved":2,"actual":5,"refunded":0,"recorded":3}`, 5},
		{"/v1/release", `{"reservation":%q}`, `{"policy":"render","reserved":2,"actual":0,"refunded":2,"recorded":0}`, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := holdServer(t, nil)
			got := holding(t, s, "/v1/reserve", `{"policy":"render","key":{"user":"ann"},"n":2}`)
			if got.HeldUntil != in(30*time.Second) || got.ExpiresAt != in(24*time.Hour) {
				t.Errorf("%+v, want the end of the hold in 30s", got)
			}
			if r := ask(s, "POST", "/v1/reserve", renderReserve); !strings.Contains(r.body, `"allowed":false`) || strings.Contains(r.body, "held_until") {
				t.Errorf("a third job: %s", r.body)
			}
			wantCounted(t, s, 2, 2)
			for range 2 {
				if r := ask(s, "POST", c.path, fmt.Sprintf(c.body, got.Reservation)); r.status != 200 || r.body != c.want+"\n" {
					t.Errorf("%s: %d %s, want %s", c.path, r.status, r.body, c.want)
				}
				wantCounted(t, s, c.day, 0)
			}
			wantProblem(t, "settled", ask(s, "POST", "/v1/extend", tokenBody(got.Reservation)), 409, "settled already")
			wantProblem(t, "other units", ask(s, "POST", "/v1/settle", settleBody(got.Reservation, 4)), 409, "settled already")
			wantCounted(t, s, c.day, 0)
		})
	}
	s := holdServer(t, nil)
	only := holding(t, s, "/v1/reserve", `{"policy":"held","n":2}`)
	if r := ask(s, "POST", "/v1/release", tokenBody(only.Reservation)); r.body != `{"policy":"held","reserved":2,"actual":0,"refunded":2,"recorded":0}`+"\n" {
		t.Errorf("without rates: %s", r.body)
	}
	// A reservation lasts as long as its hold.
	wantProblem(t, "a short life", ask(s, "POST", "/v1/reserve", `{"policy":"render","key":{"user":"bob"},"ttl_ms":29999}`), 400,
		`"ttl_ms" must be 30000 to 86400000`, "ends before its hold", "leave it out")
	if got := askRESP(t, s, "WEIR.RESERVE held 1 TTL 29999"); !strings.HasPrefix(got, "-ERR TTL must be 30000 to 30000: held holds units for up to 30s") {
		t.Error(got)
	}
	holding(t, s, "/v1/reserve", `{"policy":"held","ttl_ms":30000}`)
	rates := holding(t, s, "/v1/reserve", `{"policy":"rates","n":2}`)
	wantProblem(t, "no hold", ask(s, "POST", "/v1/extend", tokenBody(rates.Reservation)), 400, "no hold to extend")
	if r := ask(s, "POST", "/v1/settle", tokenBody(rates.Reservation)); r.status != 200 || rates.HeldUntil != "" {
		t.Errorf("rates only: %+v, %d %s", rates, r.status, r.body)
	}
}

// TestExtensionsReturnAnotherReservation: an extension holds for another 30s under another
// token. The old one settles nothing; to extend it again repeats the answer.
func TestExtensionsReturnAnotherReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdServer(t, nil)
		first := holding(t, s, "/v1/reserve", renderReserve)
		token := first.Reservation
		for range 5 {
			time.Sleep(20 * time.Second)
			next := holding(t, s, "/v1/extend", tokenBody(token))
			if next.HeldUntil != in(30*time.Second) || next.ExpiresAt != in(24*time.Hour) {
				t.Errorf("extended: %+v", next)
			}
			time.Sleep(time.Second)
			if again := holding(t, s, "/v1/extend", tokenBody(token)); again.HeldUntil != next.HeldUntil || again.Reservation == token {
				t.Errorf("extended again: %+v, want %+v", again, next)
			}
			wantCounted(t, s, 1, 1)
			for _, path := range []string{"/v1/settle", "/v1/release"} {
				wantProblem(t, "the old token", ask(s, "POST", path, tokenBody(token)), 409, "was extended", "nothing was changed")
			}
			wantCounted(t, s, 1, 1)
			token = next.Reservation
		}
		time.Sleep(29 * time.Second)
		wantCounted(t, s, 1, 0) // 20s + 1s + 29s: the hold has ended
		for _, path := range []string{"/v1/settle", "/v1/extend"} {
			for range 2 {
				wantProblem(t, "ended by time", ask(s, "POST", path, tokenBody(token)), 410, "ended by time", "nothing was changed")
			}
		}
		wantProblem(t, "an extension that is over", ask(s, "POST", "/v1/extend", tokenBody(first.Reservation)), 410, "ended by time")
		wantCounted(t, s, 1, 0)
		if r := ask(s, "POST", "/v1/release", tokenBody(token)); r.status != 200 {
			t.Errorf("the rates are corrected: %d %s", r.status, r.body)
		}
		wantCounted(t, s, 0, 0)
	})
}

// TestEndedHoldsCanBeSettled: a caller that extends, or settles as done, a hold that has
// ended gets the same error each time, and can still correct the rates.
func TestEndedHoldsCanBeSettled(t *testing.T) {
	for _, path := range []string{"/v1/extend", "/v1/settle"} {
		synctest.Test(t, func(t *testing.T) {
			s := holdServer(t, nil)
			token := tokenBody(holding(t, s, "/v1/reserve", renderReserve).Reservation)
			time.Sleep(30 * time.Second)
			for range 100 {
				wantProblem(t, path, ask(s, "POST", path, token), 410, "ended by time", "nothing was changed")
			}
			if r := ask(s, "POST", "/v1/release", token); r.status != 200 {
				t.Errorf("%s 100 times, then a release: %d %s", path, r.status, r.body)
			}
			wantCounted(t, s, 0, 0)
			wantProblem(t, path, ask(s, "POST", path, token), 409, "settled already")
		})
	}
}

// TestSettleOrExtend: of concurrent settlements and extensions of a reservation one kind
// wins, on two servers with one store.
func TestSettleOrExtend(t *testing.T) {
	for range 20 {
		store := weir.NewMemory()
		secret := func(c *Config) { c.ReservationSecret = "a secret that both servers know" }
		servers := []*Server{holdServer(t, store, secret), holdServer(t, store, secret)}
		token := holding(t, servers[0], "/v1/reserve", renderReserve).Reservation
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
		wantCounted(t, servers[0], 1, held)
	}
}

// TestFailedExtensionsCanBeRetried: the store fails in the middle of an extension, before or
// after it did its part. A retry extends once.
func TestFailedExtensionsCanBeRetried(t *testing.T) {
	for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "lost": weirtest.Lost()} {
		faulty := weirtest.NewFaulty(weir.NewMemory())
		s := holdServer(t, corrections{faulty})
		token := holding(t, s, "/v1/reserve", renderReserve).Reservation
		faulty.Break(fault)
		for range 2 {
			wantProblem(t, name, ask(s, "POST", "/v1/extend", tokenBody(token)), 503)
		}
		faulty.Restore()
		next := holding(t, s, "/v1/extend", tokenBody(token))
		wantCounted(t, s, 1, 1)
		faulty.Break(fault)
		for range 2 {
			wantProblem(t, name, ask(s, "POST", "/v1/settle", tokenBody(next.Reservation)), 503)
		}
		faulty.Restore()
		for range 2 {
			if r := ask(s, "POST", "/v1/settle", tokenBody(next.Reservation)); r.status != http.StatusOK {
				t.Errorf("%s: %d %s", name, r.status, r.body)
			}
			wantCounted(t, s, 1, 0)
		}
	}
}

// TestForeignHolds: a reservation of another store or secret is not extended.
func TestForeignHolds(t *testing.T) {
	secret := func(c *Config) { c.ReservationSecret = "a secret that both servers know" }
	s := holdServer(t, weir.NewMemory(), secret)
	token := holding(t, s, "/v1/reserve", renderReserve).Reservation
	wantProblem(t, "another store", ask(holdServer(t, weir.NewMemory(), secret), "POST", "/v1/extend", tokenBody(token)), 404, "another store")
	wantProblem(t, "another secret", ask(holdServer(t, nil), "POST", "/v1/extend", tokenBody(token)), 404, "no such reservation")
	wantProblem(t, "no token", ask(s, "POST", "/v1/extend", `{}`), 400, `"reservation" is missing`)
	wantCounted(t, s, 1, 1)
}

// TestRedisClientsExtendHolds: a reservation of a Redis client has the end of its hold as the
// last element, and another id after an extension. Expired ones have an error of their own.
func TestRedisClientsExtendHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdServer(t, nil)
		micros := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMicro()) }
		play(t, s, `
			WEIR.RESERVE held 2 => *12 :1 :2 :0 … $… $first :`+micros(30*time.Second)+` :`+micros(30*time.Second)+`
			WEIR.RESERVE held => *11 :0 :0 :0 … $0  :0
			sleep 20s
			WEIR.EXTEND $first => *3 $… $second :`+micros(50*time.Second)+` :`+micros(50*time.Second)+`
			WEIR.SETTLE $first => -SETTLED …was extended…
			sleep 20s
			WEIR.SETTLE $second => *4 :2 :2 :0 :0
			WEIR.RESERVE held => *12 :1 :1 :1 …
			WEIR.RESERVE rates 6 TTL 500 => *11 :1 :6 :4 … $… $late :`+micros(40*time.Second+500*time.Millisecond)+`
			WEIR.EXTEND $late => -ERR …no concurrency limit…
			WEIR.SETTLE $late 2 => *4 :6 :2 :4 :0
			WEIR.RESERVE rates TTL 500 => *11 :1 :1 :7 … :0 :0 $… $last :…
			sleep 500ms
			WEIR.RELEASE $last => -EXPIRED …stay as they were granted…
		`)
	})
}
