package weir

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestNewChecksEveryField: a value out of range is an error with the limit, the field and
// the valid values.
func TestNewChecksEveryField(t *testing.T) {
	good := Limit{Name: "l", Max: 1, Window: time.Second}
	with := func(change func(*Limit)) Policy {
		l := good
		change(&l)
		return Policy{Name: "p", Limits: []Limit{l}}
	}
	many := func(n int, by ...string) (p Policy) {
		p.Name = "p"
		for i := range n {
			l := good
			l.Name = string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			p.Limits = append(p.Limits, l)
		}
		p.Limits[0].By = by
		return p
	}
	var dims []string
	for i := range MaxDimensions + 1 {
		dims = append(dims, string(rune('a'+i)))
	}
	for _, c := range []struct {
		policy       Policy
		limit, field string
		says         string
	}{
		{Policy{}, "", "Name", "empty"},
		{Policy{Name: "p"}, "", "Limits", "at least one"},
		{Policy{Name: "Push", Limits: []Limit{good}}, "", "Name", "a-z 0-9"},
		{Policy{Name: "-p", Limits: []Limit{good}}, "", "Name", "byte 1"},
		{Policy{Name: "a b", Limits: []Limit{good}}, "", "Name", "byte 2"},
		{Policy{Name: strings.Repeat("p", 65), Limits: []Limit{good}}, "", "Name", "65 bytes"},
		{Policy{Name: "p", Mode: 3, Limits: []Limit{good}}, "", "Mode", "AllOrNothing, Partial or CountDenied"},
		{many(engine.MaxLimits + 1), "", "Limits", "at most 16"},
		{many(1, dims...), "", "Dimensions", "17 dimensions"},
		{Policy{Name: "p", Limits: []Limit{good, good}}, "l", "Name", "twice"},
		{Policy{Name: "p", Limits: []Limit{PerMinute(1), PerMinute(2)}}, "#2", "Name", `"minute" is used twice`},
		{Policy{Name: "p", Limits: []Limit{PerMinute(1, "user"), good, PerMinute(2, "user")}}, "#3", "Name", "give each limit one with Named"},
		{Policy{Name: "p", Limits: []Limit{PerMinute(1).Named("minute-user"), PerMinute(2, "user")}}, "#2", "Name", `"minute-user" is used twice`},
		{Policy{Name: "p", Limits: []Limit{PerMinute(1), PerMinute(2, strings.Repeat("x", 60))}}, "#2", "Name", "67 bytes long; at most 64 are allowed; choose one with Named"},
		{Policy{Name: "p", Limits: []Limit{good, PerMinute(-1)}}, "#2", "Max", "below 0"},
		// The order of the values followed that of the limits, so a new limit in front changed keys in silence.
		{Policy{Name: "p", Limits: []Limit{PerMinute(1, "user", "ip")}}, "", "Dimensions", `missing; the limits count by 2 dimensions, so declare the order of the values in K, such as Dimensions: []string{"user", "ip"}`},
		{Policy{Name: "p", Limits: []Limit{PerMinute(1, "user"), PerDay(1, "ip")}}, "", "Dimensions", "missing"},
		{Policy{Name: "p", Dimensions: []string{"user"}, Limits: []Limit{PerMinute(1, "user"), PerDay(1, "ip")}}, "", "Dimensions", `a limit counts by "ip", which is not declared; use one of "user", or add it`},
		{Policy{Name: "p", Dimensions: []string{"user", "ip"}, Limits: []Limit{PerMinute(1, "user")}}, "", "Dimensions", `no limit counts by "ip"`},
		{Policy{Name: "p", Dimensions: []string{"user", "user"}, Limits: []Limit{PerMinute(1, "user")}}, "", "Dimensions", "twice"},
		{Policy{Name: "p", Dimensions: []string{"user", "Ip"}, Limits: []Limit{PerMinute(1, "user")}}, "", "Dimensions", `dimension 2: "Ip": byte 1`},
		{Policy{Name: "p", Dimensions: []string{}, Limits: []Limit{PerMinute(1, "user", "ip")}}, "", "Dimensions", "missing"},
		{with(func(l *Limit) { l.Name = "é" }), "é", "Name", "byte 1"},
		{with(func(l *Limit) { l.Max = -1 }), "l", "Max", "below 0"},
		{with(func(l *Limit) { l.Max = MaxUnits + 1 }), "l", "Max", "above the largest"},
		{with(func(l *Limit) { l.Window = 0 }), "l", "Window", "1ms to 400 days"},
		{with(func(l *Limit) { l.Window = time.Millisecond - time.Microsecond }), "l", "Window", "1ms"},
		{with(func(l *Limit) { l.Window = MaxWindow + time.Microsecond }), "l", "Window", "400 days"},
		{with(func(l *Limit) { l.Window = time.Second + 1 }), "l", "Window", "whole microseconds"},
		{with(func(l *Limit) { l.MinInterval = -time.Second }), "l", "MinInterval", "below 0"},
		{with(func(l *Limit) { l.MinInterval = time.Second + time.Microsecond }), "l", "MinInterval", "longer than the window"},
		{with(func(l *Limit) { l.MinInterval = 1 }), "l", "MinInterval", "whole microseconds"},
		{with(func(l *Limit) { l.Cells = -1 }), "l", "Cells", "0 is exact"},
		{with(func(l *Limit) { l.Kind = 5 }), "l", "Kind", "use KindRolling, KindFixed, KindFixedFromFirst, KindBucket or KindConcurrency"},
		{with(func(l *Limit) { l.Kind, l.Cells = KindBucket, 1 }), "l", "Cells", "kind Bucket"},
		{with(func(l *Limit) { l.Kind, l.Max = KindBucket, 0 }), "l", "Max", "never refills"},
		{with(func(l *Limit) { l.Kind, l.Burst = KindBucket, -1 }), "l", "Burst", "out of range"},
		{with(func(l *Limit) { l.Kind, l.Burst = KindBucket, MaxUnits }), "l", "Burst", "use at most"},
		{with(func(l *Limit) { l.Kind, l.Max, l.Window, l.Burst = KindBucket, 1, MaxWindow, 2 }), "l", "Burst", "more than 400 days"},
		{with(func(l *Limit) { l.Burst = 5 }), "l", "Burst", "kind Rolling"},
		{with(func(l *Limit) { l.Kind, l.Window, l.MaxHold, l.Cells = KindConcurrency, 0, time.Second, 1 }), "l", "Cells", "a concurrency limit"},
		{with(func(l *Limit) { l.MaxHold = time.Second }), "l", "MaxHold", "kind Rolling"},
		{with(func(l *Limit) { l.Kind, l.MaxHold = KindConcurrency, time.Second }), "l", "Window", "use 0, and MaxHold"},
		{with(func(l *Limit) { l.Kind, l.Window = KindConcurrency, 0 }), "l", "MaxHold", "missing"},
		{with(func(l *Limit) { l.Kind, l.Window, l.MaxHold = KindConcurrency, 0, MaxWindow+time.Microsecond }), "l", "MaxHold", "1ms to 400 days"},
		{with(func(l *Limit) { l.Kind, l.Window, l.MaxHold = KindConcurrency, 0, time.Second+1 }), "l", "MaxHold", "whole microseconds"},
		{with(func(l *Limit) {
			l.Kind, l.Window, l.MaxHold, l.MinInterval = KindConcurrency, 0, time.Second, 2*time.Second
		}), "l", "MinInterval", "longer than the longest hold"},
		{with(func(l *Limit) { l.Period = Day }), "l", "Period", "use KindFixed"},
		{Policy{Name: "p", Limits: []Limit{Calendar(1, NoPeriod, "")}}, "limit", "Period", "missing; a limit of kind KindFixed needs a period"},
		{with(func(l *Limit) { l.Kind, l.Zone = KindFixed, "Europe/Berlin" }), "l", "Zone", "without a Period"},
		{with(func(l *Limit) { l.Kind, l.Anchor = KindFixed, 3 }), "l", "Anchor", "without a Period"},
		{with(func(l *Limit) { l.Kind, l.Period = KindFixed, Day }), "l", "Window", "beside the period day"},
		{with(func(l *Limit) { l.Kind, l.Period, l.Window, l.Anchor = KindFixed, Month, 0, 32 }), "l", "Anchor", "0 to 31"},
		{with(func(l *Limit) { l.Kind, l.Period, l.Window, l.Anchor = KindFixed, Day, 0, 2 }), "l", "Anchor", "0 to 1"},
		{with(func(l *Limit) { l.Kind, l.Period, l.Window, l.Zone = KindFixed, Day, 0, "Europe/Berln" }), "l", "Zone", "not a known time zone; this machine has those of the IANA database, such as Europe/Berlin: check the spelling"},
		{with(func(l *Limit) { l.Kind, l.Period, l.Window, l.Zone = KindFixed, Day, 0, "Local" }), "l", "Zone", "not a known time zone"},
		{with(func(l *Limit) { l.Kind, l.Cells = KindFixed, 1 }), "l", "Cells", "kind Fixed"},
		{with(func(l *Limit) { l.Kind, l.Cells = KindFixedFromFirst, 60 }), "l", "Cells", "kind FixedFromFirst"},
		{with(func(l *Limit) { l.Cost = -1 }), "l", "Cost", "use 0"},
		{with(func(l *Limit) { l.Cost = MaxUnits + 1 }), "l", "Cost", "out of range"},
		{Policy{Name: "p", Mode: Partial, Limits: []Limit{{Name: "l", Max: 1, Window: time.Second, Cost: 1}}}, "l", "Cost", "in part"},
		{with(func(l *Limit) { l.By = []string{"user", "User"} }), "l", "By", `dimension 2: "User": byte 1 is not one of a-z 0-9; write "user"`},
		{with(func(l *Limit) { l.By = []string{"userId"} }), "l", "By", `byte 5 is not one of a-z 0-9 . _ -; write "userid"`},
		{with(func(l *Limit) { l.Window = 60 }), "l", "Window", "60ns is out of range; use 1ms to 400 days, and a number without a unit is nanoseconds: write 60*time.Second for 60 seconds, or 60*time.Millisecond for 60 milliseconds"},
		{with(func(l *Limit) { l.Window = 60_000 }), "l", "Window", "or 60000*time.Millisecond for 60000 milliseconds"},
		{with(func(l *Limit) { l.MinInterval = 3 }), "l", "MinInterval", "write 3*time.Second for 3 seconds"},
		{with(func(l *Limit) { l.Kind, l.Window, l.MaxHold = KindConcurrency, 0, 30 }), "l", "MaxHold", "write 30*time.Second for 30 seconds"},
		{Policy{Name: "Search", Limits: []Limit{PerMinute(10)}}, "", "Name", `write "search"`},
		{with(func(l *Limit) { l.By = []string{"user", "user"} }), "l", "By", "twice"},
	} {
		_, err := New(c.policy)
		var pe *PolicyError
		if !errors.As(err, &pe) {
			t.Errorf("%+v: got %v, want a *PolicyError", c.policy, err)
			continue
		}
		if pe.Limit != c.limit || pe.Field != c.field || !strings.Contains(pe.Problem, c.says) {
			t.Errorf("got limit %q field %q problem %q, want %q %q …%s…", pe.Limit, pe.Field, pe.Problem, c.limit, c.field, c.says)
		}
		if msg := err.Error(); !strings.HasPrefix(msg, "weir: policy ") || !strings.Contains(msg, c.field) {
			t.Errorf("the text %q does not name policy and field", msg)
		}
	}
}

// TestNewAcceptsTheBounds: the ends of every range are valid.
func TestNewAcceptsTheBounds(t *testing.T) {
	for _, l := range []Limit{
		{Name: "0", Max: 0, Window: MinWindow},
		{Name: strings.Repeat("a", 64), Max: MaxUnits, Window: MaxWindow, MinInterval: MaxWindow, Cells: 1 << 30},
		{Name: "a.b_c-d", Max: 1, Window: MinWindow, MinInterval: MinWindow, Cells: 1},
		{Name: "calendar", Max: MaxUnits, Window: MaxWindow, MinInterval: MaxWindow, Kind: KindFixed},
		{Name: "first", Max: 1, Window: MinWindow, MinInterval: MinWindow, Kind: KindFixedFromFirst},
	} {
		l := mustNew(t, Policy{Name: "p", Limits: []Limit{l}})
		for range 3 {
			mustAllow(t, l, K())
		}
	}
}

// TestDimensions: the values of a key have the order that the policy declares, and those of a
// limit the order of their names (R12, V3).
func TestDimensions(t *testing.T) {
	a := Limit{Name: "a", Max: 1, Window: time.Second}
	b := Limit{Name: "b", Max: 1, Window: time.Second, By: []string{"x", "y"}}
	c := Limit{Name: "c", Max: 1, Window: time.Second, By: []string{"x", "z", "y"}}
	for _, limits := range [][]Limit{{a, b, c}, {c, b, a}} {
		p := Policy{Name: "p", Dimensions: []string{"y", "x", "z"}, Limits: limits}
		rules := mustCompile(t, p)
		by := rules.Limits[rules.LimitNamed("c")].By
		assert.Equal(t, fmt.Sprint(rules.Dimensions, by), "[y x z] [1 0 2]", "dimensions, and the values by which limit c counts")
	}
	one := mustCompile(t, Policy{Name: "p", Limits: []Limit{PerMinute(1, "user")}})
	assert.Equal(t, fmt.Sprint(one.Dimensions), "[user]", "the only dimension")
}

// TestConstructors: a constructor makes the same limit as the fields, and the name of one among
// several follows from its window and its dimensions in any order.
func TestConstructors(t *testing.T) {
	by := []string{"teacher", "tenant"}
	for _, c := range []struct {
		made, want Limit
		name       string
	}{
		{PerSecond(1), Limit{Max: 1, Window: time.Second}, "second"},
		{PerMinute(10, by...).Apart(3 * time.Second), Limit{Max: 10, Window: time.Minute, MinInterval: 3 * time.Second, By: by}, "minute-teacher-tenant"},
		{PerHour(1, "teacher"), Limit{Max: 1, Window: time.Hour, By: by[:1]}, "hour-teacher"},
		{PerDay(1), Limit{Max: 1, Window: 24 * time.Hour}, "day"},
		{Per(100, 30*time.Minute, "tenant"), Limit{Max: 100, Window: 30 * time.Minute, By: by[1:]}, "30m-tenant"},
		{Per(1, 1500*time.Millisecond), Limit{Max: 1, Window: 1500 * time.Millisecond}, "1500ms"},
		{Per(1, 1500*time.Microsecond), Limit{Max: 1, Window: 1500 * time.Microsecond}, "1500us"},
		{Per(1, 7*24*time.Hour), Limit{Max: 1, Window: 7 * 24 * time.Hour}, "7d"},
		{Per(1, 36*time.Hour), Limit{Max: 1, Window: 36 * time.Hour}, "36h"},
		{Per(1, 90*time.Second), Limit{Max: 1, Window: 90 * time.Second}, "90s"},
		{Bucket(10, time.Second, 20, "tenant"), Limit{Kind: KindBucket, Max: 10, Window: time.Second, Burst: 20, By: by[1:]}, "second-tenant"},
		{AtOnce(3, time.Minute, "tenant"), Limit{Kind: KindConcurrency, Max: 3, MaxHold: time.Minute, By: by[1:]}, "at-once-tenant"},
		{Calendar(5, Month, "Europe/Berlin"), Limit{Kind: KindFixed, Max: 5, Period: Month, Zone: "Europe/Berlin"}, "month"},
		{PerHour(1).Named("burst"), Limit{Name: "burst", Max: 1, Window: time.Hour}, "burst"},
	} {
		if !reflect.DeepEqual(c.made, c.want) {
			t.Errorf("got %+v, want %+v", c.made, c.want)
		}
		others := PerDay(1, by...).Named("others")
		p := Policy{Name: "p", Dimensions: []string{"tenant", "teacher"}, Limits: []Limit{c.made, others}}
		assert.Equal(t, mustCompile(t, p).Limits[0].Name, c.name, "the name of one of several limits")
		p.Limits, p.Dimensions = p.Limits[:1], nil
		if len(c.made.By) > 1 {
			p.Dimensions = by
		}
		if sole := mustCompile(t, p).Limits[0].Name; sole != "limit" && c.made.Name == "" {
			t.Errorf("the sole limit is called %q, want limit", sole)
		}
	}
}

// TestRulesAreACopy: a later change of the policy does not change the rules, and the name of a
// sole limit does not change the policy.
func TestRulesAreACopy(t *testing.T) {
	p := Policy{Name: "p", Limits: []Limit{PerSecond(1, "user")}}
	l := mustNew(t, p)
	assert.Equal(t, l.Compiled().Limits[0].Name+" of "+p.Limits[0].Name, "limit of ", "the name of the rules, of that of the policy")
	p.Limits[0].Max, p.Limits[0].By[0] = 100, "other"
	if got := l.Compiled(); got.Limits[0].Max != 1 || got.Dimensions[0] != "user" {
		t.Errorf("the rules became %+v", got)
	}
}

// TestMaxBurstFillsWithin400Days: the largest burst fills in at most 400 days, and one more
// unit does not.
func TestMaxBurstFillsWithin400Days(t *testing.T) {
	for _, c := range []struct {
		most   int64
		window time.Duration
		want   int64
	}{{10, MaxWindow, 10}, {1_000_003, MaxWindow, 1_000_003}, {1, MaxWindow, 1}, {3, time.Hour * 24, 1200}, {7, 11 * time.Hour * 24, 254}} {
		l := Limit{Name: "l", Max: c.most, Window: c.window, Kind: KindBucket, Burst: c.want}
		assert.Equal(t, l.maxBurst(), c.want, "%d per %v: the largest burst", c.most, c.window)
		mustCompile(t, (Policy{Name: "p", Limits: []Limit{l}}))
	}
}

// mustCompile returns the rules of a policy.
func mustCompile(t testing.TB, p Policy) *engine.Compiled {
	t.Helper()
	rules, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// mustAllow decides an attempt of one unit.
func mustAllow(t testing.TB, l *Limiter, k Key) Decision {
	t.Helper()
	d, err := l.Allow(ctx, k)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
