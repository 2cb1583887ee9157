package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/policy"
)

// reservedByRedis returns the id in an answer to WEIR.RESERVE, "" for a denial.
func reservedByRedis(t *testing.T, answer string) string {
	t.Helper()
	parts := strings.Split(strings.TrimSpace(answer), " ")
	if len(parts) != 14 || parts[0] != "*11" {
		t.Fatalf("%q, want eleven elements", answer)
	}
	return parts[12]
}

// TestReservationsSettleAcrossFronts: a reservation of one front can be settled on
// another, once.
func TestReservationsSettleAcrossFronts(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	id := reservedByRedis(t, sendTo(t, plainly(s), "WEIR.RESERVE sms phone=+1 6 TTL 60000"))
	if r := ask(s, "POST", "/v1/settle", settleBody(id, 2)); r.status != 200 || r.body != `{"policy":"sms","reserved":6,"actual":2,"refunded":4,"recorded":0}`+"\n" {
		t.Errorf("settled over HTTP: %d %s", r.status, r.body)
	}
	first, second := reserveBy(t, s, smsReserve).Reservation, reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"}}`).Reservation
	got := sendTo(t, plainly(s), "WEIR.SETTLE "+id+" 1", "WEIR.SETTLE "+first+" 8", "WEIR.RELEASE "+second, "WEIR.RELEASE x", "WEIR.RESERVE sms phone=+1 10", "WEIR.RESERVE sms phone=+1 TTL 999999999999")
	for i, want := range []string{"-SETTLED the reservation is settled already; nothing was changed ", "*4 :6 :8 :0 :2 ", "*4 :1 :0 :1 :0 ", "-ERR there is no such reservation: ",
		"*11 :0 :0 :0 ", "-ERR TTL must be 1 to 86400000: the longest window of sms, "} {
		before, rest, found := strings.Cut(got, want)
		if !found || i < 2 && before != "" {
			t.Fatalf("%q, want %q next", got, want)
		}
		got = rest
	}
	if n := left(t, s); n != 10-2-8 {
		t.Errorf("%d are left, want 0", n)
	}
	wantMetrics(t, s, `weir_decisions_total{outcome="allowed",policy="sms",protocol="resp"} 1`, `weir_decisions_total{outcome="denied",policy="sms",protocol="resp"} 1`,
		`weir_decisions_total{outcome="recorded",policy="sms",protocol="resp"} 1`, `weir_decisions_total{outcome="refunded",policy="sms",protocol="resp"} 1`,
		`weir_bad_requests_total{protocol="resp"} 3`)
}

// TestRedisReservationsKeepTheirPlan: a reservation is settled under the plan that it was
// made with.
func TestRedisReservationsKeepTheirPlan(t *testing.T) {
	s, _ := newServer(t, nil, withRESP, func(c *Config) {
		f, err := policy.Parse("weir.yaml", []byte(varied))
		if err != nil {
			t.Fatal(err)
		}
		c.Policies = f
	})
	start(t, s)
	id := reservedByRedis(t, sendTo(t, plainly(s), "WEIR.RESERVE api plan=pro tenant=a 3"))
	got := sendTo(t, plainly(s), "WEIR.PEEK api plan=pro tenant=a", "WEIR.SETTLE "+id+" 1", "WEIR.PEEK api plan=pro tenant=a")
	if !strings.HasPrefix(got, "*9 :0 :0 :0 ") || !strings.Contains(got, "*4 :3 :1 :2 :0 *9 :1 :1 :2 ") {
		t.Errorf("%q, want 2 of 3 given back", got)
	}
	id = reservedByRedis(t, sendTo(t, plainly(s), "WEIR.RESERVE watch user=u 5"))
	if got := sendTo(t, plainly(s), "WEIR.RELEASE "+id); got != "*4 :0 :0 :0 :0 " {
		t.Errorf("of a shadow, which charged no units that it would have denied: %q", got)
	}
}

// TestRepeatedRedisReservationIsChargedOnce: a repeated WEIR.RESERVE returns another id
// of the same reservation, also over HTTP. One of the ids settles it; the others get the
// same answer for the same units.
func TestRepeatedRedisReservationIsChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	var ids []string
	for i, ask := range []string{"WEIR.RESERVE sms phone=+1 6 ID job TTL 60000", "WEIR.RESERVE sms phone=+1 6 TTL 60000 ID job", "WEIR.RESERVE sms phone=+1 6 ID job"} {
		parts := strings.Split(strings.TrimSpace(sendTo(t, plainly(s), ask)), " ")
		if want := ":" + strconv.Itoa(min(i, 1)); len(parts) != 15 || parts[0] != "*12" || parts[14] != want {
			t.Fatalf("%s: %q, want twelve elements, the last %s", ask, parts, want)
		}
		ids = append(ids, parts[12])
	}
	ids = append(ids, reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":6,"id":"job"}`).Reservation)
	if n := left(t, s); n != 4 {
		t.Errorf("%d are left, want 4", n)
	}
	for i, id := range ids {
		for actual, want := range map[string]string{"1": "*4 :6 :1 :5 :0 ", "2": "-SETTLED "} {
			if i == 0 && actual == "2" {
				continue
			}
			if got := sendTo(t, plainly(s), "WEIR.SETTLE "+id+" "+actual); !strings.HasPrefix(got, want) {
				t.Errorf("id %d, %s used: %q, want %q", i, actual, got, want)
			}
		}
	}
}

// TestLateRedisSettlementIsExpired: a settlement after the expiry gets an error of its own,
// for which package resp has a code.
func TestLateRedisSettlementIsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		got := strings.Fields(askRESP(t, s, "WEIR.RESERVE sms phone=+1 6 TTL 1000"))
		if n := len(got); n < 2 || got[1] != ":1" || got[n-1] != fmt.Sprint(":", time.Now().Add(time.Second).UnixMicro()) {
			t.Fatalf("%q; want a second", got)
		}
		time.Sleep(time.Second)
		if got := askRESP(t, s, "WEIR.RELEASE "+got[len(got)-2]); !strings.HasPrefix(got, "-EXPIRED ") {
			t.Errorf("a second later: %s", got)
		}
		if n := left(t, s); n != 4 {
			t.Errorf("%d are left, want 4: the units stay", n)
		}
	})
}

// TestIDsAreSharedByAllFronts: an id is one operation on every front.
func TestIDsAreSharedByAllFronts(t *testing.T) {
	s, _ := newServer(t, nil, withRESP)
	start(t, s)
	decide(t, s, "/v1/check", `{"policy":"sms","key":{"phone":"+1"},"n":6,"id":"order 1"}`)
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

// TestSettlementsAreCounted: each settlement has one outcome, also one without a
// correction.
func TestSettlementsAreCounted(t *testing.T) {
	s, _ := newServer(t, nil)
	for actual, outcome := range []string{"refunded", "recorded", "recorded"} {
		id := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":1}`).Reservation
		before := policyOf(t, s, "sms").Counts.Calls(outcomeNamed(outcome))
		if r := ask(s, "POST", "/v1/settle", settleBody(id, actual)); r.status != 200 {
			t.Fatalf("%d used: %d %s", actual, r.status, r.body)
		}
		if n := policyOf(t, s, "sms").Counts.Calls(outcomeNamed(outcome)); n != before+1 {
			t.Errorf("%d of 1 used: %d calls %s, want one more than %d", actual, n, outcome, before)
		}
	}
}

func outcomeNamed(name string) observe.Outcome {
	for o := range observe.Outcome(observe.Outcomes) {
		if o.String() == name {
			return o
		}
	}
	panic(name)
}
