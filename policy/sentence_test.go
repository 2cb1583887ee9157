package policy

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
)

// checkSentences: Parse reads the sentence of each limit as the same limit.
func checkSentences(t *testing.T, f *File) {
	t.Helper()
	for _, p := range f.Policies {
		for i, want := range p.Limits {
			line := p.Sentence(i)
			d, err := parseLimit(line)
			if err != nil {
				t.Errorf("policy %s: limit %+v: its sentence %q: %v", p.Name, want, line, err)
				continue
			}
			got, unit := d.limit, d.unit
			got.Name, got.Cells, got.Cost = want.Name, want.Cells, want.Cost
			if !reflect.DeepEqual(got, want) || unit != p.Units[i] || d.block != p.BlockOf(i) {
				t.Errorf("policy %s: limit %+v unit %q: its sentence %q is read as %+v unit %q block %v", p.Name, want, p.Units[i], line, got, unit, d.block)
			}
		}
	}
}

// TestLimitsAsSentences: limits that no file wrote, sentence by sentence.
func TestLimitsAsSentences(t *testing.T) {
	cases := []struct {
		limit weir.Limit
		unit  string
		want  string
	}{
		{weir.Limit{Max: 10, Window: time.Minute}, "", "10 per minute"},
		{weir.Limit{Max: 10, Window: day, MinInterval: 3 * time.Second, By: []string{"phone"}}, "messages", "10 messages per day per phone, 3s apart"},
		{weir.Limit{Max: 9999, Window: time.Second}, "", "9999 per second"},
		{weir.Limit{Max: 10000, Window: time.Second}, "", "10_000 per second"},
		{weir.Limit{Max: 1234567, Window: 7 * day}, "cents", "1_234_567 cents per week"},
		{weir.Limit{Max: weir.MaxUnits, Window: weir.MinWindow}, "", "unlimited"},
		{weir.Limit{Max: weir.MaxUnits, Window: 2 * weir.MinWindow}, "", "unlimited per 2ms"},
		{weir.Limit{Max: weir.MaxUnits, Window: time.Hour, MinInterval: time.Hour, By: []string{"a"}}, "", "unlimited per a, 1h apart"},
		{weir.Limit{Max: 10, Window: day, By: []string{"a"}, Kind: weir.Fixed}, "", "10 per day per a, fixed"},
		{weir.Limit{Max: 10, Window: time.Hour, MinInterval: time.Second, Kind: weir.FixedFromFirst}, "calls", "10 calls per hour, fixed from the first hit, 1s apart"},
		{weir.Limit{Max: weir.MaxUnits, Window: time.Hour, MinInterval: time.Hour, Kind: weir.Fixed}, "", "unlimited, fixed, 1h apart"},
		{weir.Limit{Max: 10, Window: time.Second, By: []string{"ip"}, Kind: weir.Bucket, Burst: 20}, "", "10 per second per ip, burst 20"},
		{weir.Limit{Max: 10, Window: time.Second, MinInterval: time.Millisecond, Kind: weir.Bucket, Burst: 20_000}, "calls", "10 calls per second, burst 20_000, 1ms apart"},
		{weir.Limit{Max: 20, MaxHold: 30 * time.Second, By: []string{"user"}, Kind: weir.Concurrency}, "renders", "20 renders at once per user, for at most 30s"},
		{weir.Limit{Max: weir.MaxUnits, MaxHold: time.Hour, MinInterval: time.Second, Kind: weir.Concurrency}, "", "unlimited at once, for at most 1h, 1s apart"},
		{weir.Limit{Max: 5, Window: 7 * day, Kind: weir.Fixed}, "", "5 per 7d, fixed"},
		{weir.Limit{Max: 5, Window: 7 * day, Kind: weir.Fixed, Period: weir.Week}, "", "5 per week, fixed"},
		{weir.Limit{Max: 5, Window: 31 * day}, "", "5 per 31d"},
		{weir.Limit{Max: 5, Window: 31 * day, Kind: weir.Fixed, Period: weir.Month}, "", "5 per month, fixed"},
		{weir.Limit{Max: 1000, Window: day, Kind: weir.Fixed, Period: weir.Day, Zone: "Europe/Berlin"}, "", "1000 per day, fixed in Europe/Berlin"},
		{weir.Limit{Max: 10_000, Window: 31 * day, MinInterval: time.Hour, By: []string{"account"}, Kind: weir.Fixed, Period: weir.Month, Zone: "America/New_York", Anchor: 14}, "",
			"10_000 per month per account, fixed, from the 14th, in America/New_York, 1h apart"},
		{weir.Limit{Max: weir.MaxUnits - 1, Window: weir.MinWindow}, "", "2_251_799_813_685_246 per 1ms"},
	}
	for _, c := range cases {
		c.limit.Name = "limit"
		p := Definition{Name: "p", Limits: []weir.Limit{c.limit}, Units: []string{c.unit}}
		if got := p.Sentence(0); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.limit, got, c.want)
		}
		checkSentences(t, &File{Policies: []*Definition{&p}})
	}
	bare := Definition{Limits: []weir.Limit{{Max: 1, Window: time.Second}}}
	if got, want := bare.Sentence(0), "1 per second"; got != want {
		t.Errorf("without Units: got %q, want %q", got, want)
	}
}

// TestSentencesAreReadBack: limits of all kinds survive their sentences.
func TestSentencesAreReadBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(d ...time.Duration) time.Duration { return d[r.IntN(len(d))] }
	for range 20_000 {
		l := weir.Limit{Name: onlyLimitName, Max: 1 + r.Int64N(weir.MaxUnits>>r.IntN(51)), Kind: weir.Kind(r.IntN(5)),
			Window: pick(time.Second, 90*time.Second, time.Hour, day, 7*day, 30*day, 31*day)}
		if l.Kind != weir.Bucket && r.IntN(5) == 0 {
			l.Max = weir.MaxUnits
		}
		if r.IntN(3) == 0 {
			l.MinInterval = pick(0, time.Microsecond, time.Second)
		}
		if r.IntN(2) == 0 {
			l.By = []string{"user"}
		}
		switch {
		case l.Kind == weir.Concurrency:
			l.Window, l.MaxHold = 0, l.Window
		case l.Kind == weir.Bucket:
			l.Burst = 1 + r.Int64N(20)
		case l.Kind == weir.Fixed && r.IntN(2) == 0:
			l.Period = weir.Hour + weir.Period(r.IntN(4))
			l.Window = l.Period.Length()
			l.Anchor = []int{weir.Week: r.IntN(8), weir.Month: r.IntN(32)}[max(l.Period, weir.Week)]
			if l.Zone = zones()[r.IntN(len(zones()))]; l.Period < weir.Week {
				l.Anchor = 0
			} else if r.IntN(2) == 0 {
				l.Zone = ""
			}
		}
		p := weir.Policy{Name: "p", Limits: []weir.Limit{l}}
		if _, err := p.Compile(); err != nil {
			continue // a bucket that fills too slowly
		}
		checkSentences(t, &File{Policies: []*Definition{{Name: p.Name, Limits: p.Limits, Units: []string{""}}}})
	}
}

// TestDurationsAreReadBack: the words of lengths, both ways.
func TestDurationsAreReadBack(t *testing.T) {
	cases := []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{time.Microsecond, "1us"},
		{1500 * time.Microsecond, "1500us"},
		{250 * time.Millisecond, "250ms"},
		{1500 * time.Millisecond, "1500ms"},
		{time.Second, "1s"},
		{60 * time.Second, "1m"},
		{90 * time.Second, "90s"},
		{30 * time.Minute, "30m"},
		{90 * time.Minute, "90m"},
		{day, "24h"},
		{36 * time.Hour, "36h"},
		{2 * day, "2d"},
		{7 * day, "7d"},
		{400 * day, "400d"},
	}
	for _, c := range cases {
		if got := FormatDuration(c.d); got != c.want {
			t.Errorf("Duration(%v): got %q, want %q", c.d, got, c.want)
		}
		if got, ok := parseLength(c.want); !ok || got != c.d {
			t.Errorf("parseLength(%q): got %v, %v; want %v", c.want, got, ok, c.d)
		}
	}
	for _, bad := range []string{"", "s", "1", "1 s", "-1s", "1.5s", "1S", "1w", "1h30m", "1_s", "01s", "minute", "1µs", "1ss"} {
		if got, ok := parseLength(bad); ok {
			t.Errorf("parseLength(%q): got %v, want none", bad, got)
		}
		if _, err := parseLimit("1 per day, " + bad + " apart"); err == nil {
			t.Errorf("%q as the time apart: read, want an error", bad)
		}
	}
	if got, ok := parseLength("9999999999999d"); !ok || got <= weir.MaxWindow {
		t.Errorf("parseLength of more than a time.Duration: got %v, %v; want the longest", got, ok)
	}
}

func TestOutageWords(t *testing.T) {
	for word, want := range map[string]engine.Outage{"": fallback.Deny, "deny": fallback.Deny, "allow": fallback.Allow, "share": fallback.Share} {
		line := ""
		if word != "" {
			line = "    when-store-is-down: " + word + "\n"
		}
		f, err := Parse("weir.yaml", []byte("version: 1\npolicies:\n  a:\n    limit: 1 per minute\n"+line))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Policies[0].WhenStoreIsDown; got != want {
			t.Errorf("when-store-is-down: %q: got %v, want %v", word, got, want)
		}
	}
}
