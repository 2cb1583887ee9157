package policy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
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

// TestSentence: limits that no file wrote, sentence by sentence.
func TestSentence(t *testing.T) {
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
		{weir.Limit{Max: 10, Window: day, By: []string{"a"}, Kind: weir.Calendar}, "", "10 per day per a, fixed"},
		{weir.Limit{Max: 10, Window: time.Hour, MinInterval: time.Second, Kind: weir.FirstHit}, "calls", "10 calls per hour, fixed from the first hit, 1s apart"},
		{weir.Limit{Max: weir.MaxUnits, Window: time.Hour, MinInterval: time.Hour, Kind: weir.Calendar}, "", "unlimited, fixed, 1h apart"},
		{weir.Limit{Max: weir.MaxUnits - 1, Window: weir.MinWindow}, "", "9_007_199_254_740_990 per 1ms"},
	}
	for _, c := range cases {
		c.limit.Name = "limit"
		p := Policy{Policy: weir.Policy{Name: "p", Limits: []weir.Limit{c.limit}}, Units: []string{c.unit}}
		if got := p.Sentence(0); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.limit, got, c.want)
		}
		checkSentences(t, &File{Policies: []*Policy{&p}})
	}
	bare := Policy{Policy: weir.Policy{Limits: []weir.Limit{{Max: 1, Window: time.Second}}}}
	if got, want := bare.Sentence(0), "1 per second"; got != want {
		t.Errorf("without Units: got %q, want %q", got, want)
	}
}

// TestDuration: the words of lengths, both ways.
func TestDuration(t *testing.T) {
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
		if got, err := ParseDuration(c.want); err != nil || got != c.d {
			t.Errorf("ParseDuration(%q): got %v, %v; want %v", c.want, got, err, c.d)
		}
	}
	for _, bad := range []string{"", "s", "1", "1 s", "-1s", "1.5s", "1S", "1w", "1h30m", "1_s", "01s", "minute", "1µs", "1ss"} {
		if got, err := ParseDuration(bad); err == nil || !strings.Contains(err.Error(), useLength) {
			t.Errorf("ParseDuration(%q): got %v, %v; want an error with examples", bad, got, err)
		}
	}
	if got, err := ParseDuration("9999999999999d"); err != nil || got <= weir.MaxWindow {
		t.Errorf("ParseDuration of more than a time.Duration: got %v, %v; want the longest", got, err)
	}
}

func TestKindWord(t *testing.T) {
	got := fmt.Sprint(KindWord(weir.Rolling), " ", KindWord(weir.Calendar), " ", KindWord(weir.FirstHit), " ", KindWord(9))
	if want := "rolling fixed fixed-from-first-hit unknown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOutageWords(t *testing.T) {
	for word, want := range map[string]fallback.Mode{"": fallback.FailClosed, "deny": fallback.FailClosed, "allow": fallback.FailOpen, "local": fallback.Local} {
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
