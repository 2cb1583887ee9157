package policy

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/testkit/assert"
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
			if !reflect.DeepEqual(got, want) || unit != p.Units[i] {
				t.Errorf("policy %s: limit %+v unit %q: its sentence %q is read as %+v unit %q", p.Name, want, p.Units[i], line, got, unit)
			}
		}
	}
}

// TestSentencesAreReadBack: limits of all kinds survive their sentences, also in a Definition
// without units.
func TestSentencesAreReadBack(t *testing.T) {
	bare := Definition{Limits: []weir.Limit{{Max: 1, Window: time.Second}}}
	assert.Equal(t, bare.Sentence(0), "1 per second", "without Units")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(d ...time.Duration) time.Duration { return d[r.IntN(len(d))] }
	for range 20_000 {
		l := weir.Limit{Name: onlyLimitName, Max: 1 + r.Int64N(weir.MaxUnits>>r.IntN(51)), Kind: weir.Kind(r.IntN(5)),
			Window: pick(time.Second, 90*time.Second, time.Hour, day, 7*day, 30*day, 31*day)}
		if l.Kind != weir.KindBucket && r.IntN(5) == 0 {
			l.Max = weir.MaxUnits
		}
		if r.IntN(3) == 0 {
			l.MinInterval = pick(0, time.Microsecond, time.Second)
		}
		if r.IntN(2) == 0 {
			l.By = []string{"user"}
		}
		if r.IntN(4) == 0 {
			l.Block = pick(time.Millisecond, 90*time.Second, time.Hour)
		}
		switch {
		case l.Kind == weir.KindConcurrency:
			l.Window, l.MaxHold = 0, l.Window
		case l.Kind == weir.KindBucket:
			l.Burst = 1 + r.Int64N(20)
		case l.Kind == weir.KindFixed && r.IntN(2) == 0:
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
	for _, c := range []struct {
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
	} {
		assert.Equal(t, duration.Format(c.d), c.want, "Duration(%v)", c.d)
		if got, ok := parseLength(c.want); !ok || got != c.d {
			t.Errorf("parseLength(%q): got %v, %v; want %v", c.want, got, ok, c.d)
		}
	}
	for _, bad := range []string{"", "s", "1", "1 s", "-1s", "1.5s", "1S", "1w", "1h30m", "1_s", "01s", "minute", "1µs", "1ss"} {
		if got, ok := parseLength(bad); ok {
			t.Errorf("parseLength(%q): got %v, want none", bad, got)
		}
		_, err := parseLimit("1 per day, " + bad + " apart")
		assert.Error(t, err, nil)
	}
	if got, ok := parseLength("9999999999999d"); !ok || got <= weir.MaxWindow {
		t.Errorf("parseLength of more than a time.Duration: got %v, %v; want the longest", got, ok)
	}
}
