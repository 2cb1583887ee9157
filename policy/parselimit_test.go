package policy

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestParseLimitReturnsWhatConstructorsReturn: a line of a policy file is the same weir.Limit as
// the constructor's of its kind. It had the name "limit", so that no policy could hold two.
func TestParseLimitReturnsWhatConstructorsReturn(t *testing.T) {
	anchored := func(l weir.Limit, anchor int) weir.Limit {
		l.Anchor = anchor
		return l
	}
	for _, c := range []struct {
		line, unit string
		want       weir.Limit
	}{
		{"10 per minute per user, 3s apart", "", weir.PerMinute(10, "user").Apart(3 * time.Second)},
		{"0 per second", "", weir.PerSecond(0)},
		{"10 per hour per tenant per user", "", weir.PerHour(10, "tenant", "user")},
		{"200_000 cents per day per account", "cents", weir.PerDay(200_000, "account")},
		{"100 per 30m per tenant", "", weir.Per(100, 30*time.Minute, "tenant")},
		{"unlimited messages per day", "messages", weir.PerDay(weir.MaxUnits)},
		{"unlimited per user", "", weir.Per(weir.MaxUnits, weir.MinWindow, "user")},
		{"unlimited, 3s apart", "", weir.Per(weir.MaxUnits, 3*time.Second).Apart(3 * time.Second)},

		{"10 per second per ip, burst 20", "", weir.Bucket(10, time.Second, 20, "ip")},
		{"10 per second, burst 10, 5ms apart", "", weir.Bucket(10, time.Second, 10).Apart(5 * time.Millisecond)},

		{"20 calls at once per user, for at most 30s", "calls", weir.AtOnce(20, 30*time.Second, "user")},
		{"unlimited at once, for at most 1h, 1s apart", "", weir.AtOnce(weir.MaxUnits, time.Hour).Apart(time.Second)},

		{"5 per hour, fixed", "", weir.Calendar(5, weir.Hour, "")},
		{"5 per day per user, fixed", "", weir.Calendar(5, weir.Day, "", "user")},
		{"5 per week, fixed", "", weir.Calendar(5, weir.Week, "")},
		{"5 per month, fixed, 1s apart", "", weir.Calendar(5, weir.Month, "").Apart(time.Second)},
		{"5 per day per user, fixed in Europe/Berlin", "", weir.Calendar(5, weir.Day, "Europe/Berlin", "user")},
		{"unlimited per day, fixed", "", weir.Calendar(weir.MaxUnits, weir.Day, "")},
		{"5 per week, fixed, from sunday", "", anchored(weir.Calendar(5, weir.Week, ""), 7)},
		{"5 per month, fixed, from the 14th, in Asia/Tokyo", "", anchored(weir.Calendar(5, weir.Month, "Asia/Tokyo"), 14)},

		// These have no constructor.
		{"5 per minute, fixed", "", weir.Limit{Kind: weir.KindFixed, Max: 5, Window: time.Minute}},
		{"5 per 24h, fixed", "", weir.Limit{Kind: weir.KindFixed, Max: 5, Window: 24 * time.Hour}},
		{"5 per day per user, fixed from the first hit", "", weir.Limit{Kind: weir.KindFixedFromFirst, Max: 5, Window: 24 * time.Hour, By: []string{"user"}}},
	} {
		got, unit, err := ParseLimit(c.line)
		if err != nil || unit != c.unit || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, unit %q, %v; want %+v, unit %q", c.line, got, unit, err, c.want, c.unit)
		}
		p := weir.Policy{Name: "p", Dimensions: got.By, Limits: []weir.Limit{got}}
		if _, err := weir.New(p); err != nil {
			t.Errorf("%q: %v", c.line, err)
		}
	}
}

// TestTwoParsedLimitsStandInOnePolicy: their names are those of unnamed limits.
func TestTwoParsedLimitsStandInOnePolicy(t *testing.T) {
	var limits []weir.Limit
	for _, line := range []string{"10 per minute per user", "5 per day, fixed", "2 at once, for at most 30s"} {
		l, _, err := ParseLimit(line)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	limiter, err := weir.New(weir.Policy{Name: "push", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, fmt.Sprint(limiter.Compiled().LimitNames()), "[minute-user day at-once]", "names")
}

// TestParseLimitSaysWhereAPartBelongs: a part of a policy file that a weir.Limit lacks is an
// error with the field of package weir that has it, or package enforce.
func TestParseLimitSaysWhereAPartBelongs(t *testing.T) {
	const enforce = "leave it out, or put the line in a policy file and apply it with package enforce"
	for _, c := range []struct {
		line          string
		column        int
		problem, next string
	}{
		{"10 per minute, warn 80%", 16, `"warn" is no part of a weir.Limit`, enforce},
		{"10 per minute, shadow", 16, `"shadow" is no part of a weir.Limit`, enforce},
		{"10 per minute, cells 60", 16, `"cells" is no part of a limit line`, "leave it out, and set Limit.Cells"},
		{"10 per minute, cost 2", 16, `"cost" is no part of a limit line`, "leave it out, and set Limit.Cost"},
		{"10 per minute, costs 2", 16, `"costs" is no part of a limit line`, "leave it out, and set Limit.Cost"},
		{"10 per minute, partial", 16, `"partial" is no part of a limit line`, "leave it out, and set Policy.Mode to weir.Partial"},
		{"10 per minute, counted", 16, `"counted" is no part of a limit line`, "leave it out, and set Policy.Mode to weir.CountDenied"},
	} {
		l, unit, err := ParseLimit(c.line)
		e, is := errors.AsType[*Error](err)
		if !is || !reflect.DeepEqual(l, weir.Limit{}) || unit != "" {
			t.Errorf("%q: got %+v, unit %q, %v; want an *Error alone", c.line, l, unit, err)
			continue
		}
		if e.Line != 1 || e.Column != c.column || e.Problem != c.problem || e.Next != c.next {
			t.Errorf("%q: got\n%+v", c.line, e)
		}
		checkError(t, c.line, err)
	}
}
