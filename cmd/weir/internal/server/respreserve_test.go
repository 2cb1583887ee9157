package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

// TestLateRedisSettlementIsExpired: a settlement after the expiry gets an error of its own,
// for which package resp has a code.
func TestLateRedisSettlementIsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		play(t, s, fmt.Sprintf(`
			WEIR.RESERVE sms phone=+1 6 TTL 1000 => *11 :1 … :0 :0 $… $id :%d
			sleep 1s
			WEIR.RELEASE $id => -EXPIRED …
			POST /v1/peek {"policy":"sms","key":{"phone":"+1"}} => 200 …"remaining":4,…
		`, time.Now().Add(time.Second).UnixMicro()))
	})
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

// TestSettlementsAreCounted: each settlement has one outcome, also one without a
// correction.
func TestSettlementsAreCounted(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let one "policy":"sms","key":{"phone":"+1"},"n":1
		POST /v1/reserve {$one} => 200 …"reservation":"$none"…
		POST /v1/reserve {$one} => 200 …"reservation":"$all"…
		POST /v1/reserve {$one} => 200 …"reservation":"$more"…
		POST /v1/settle {"reservation":"$none","actual":0} => 200 …
		metric weir_decisions_total{outcome="refunded",policy="sms",protocol="http"} 1
		POST /v1/settle {"reservation":"$all","actual":1} => 200 …
		metric weir_decisions_total{outcome="recorded",policy="sms",protocol="http"} 1
		POST /v1/settle {"reservation":"$more","actual":2} => 200 …
		metric weir_decisions_total{outcome="recorded",policy="sms",protocol="http"} 2
	`)
}
