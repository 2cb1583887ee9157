package enforce

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/internal/testkit/txtar"
	"github.com/weirlimit/weir/weirredis"
)

var rewrite = flag.Bool("rewrite", false, "write the outcomes of the traces instead of comparing with them")

const traces = "testdata/traces.txtar"

// readTraces returns the archive of traces and of the policy files that they use.
func readTraces(t testing.TB) *txtar.Archive {
	t.Helper()
	text, err := os.ReadFile(traces)
	if err != nil {
		t.Fatal(err)
	}
	return txtar.Parse(text)
}

// traceFile returns a policy file of the archive.
func traceFile(t testing.TB, name string) string {
	t.Helper()
	all := readTraces(t).Files
	i := slices.IndexFunc(all, func(f txtar.File) bool { return f.Name == name })
	return string(all[i].Data)
}

// TestTraces plays each trace of the archive in virtual time, on memory and on Redis, and one
// whose name begins with cluster on a Redis Cluster. A line "use FILE POLICY" selects the
// policy. Others have an instant, an operation, the key, the units, an idempotency key, and
// the outcome: the decision and its wait, then the end of a block, and the limits that warn.
func TestTraces(t *testing.T) {
	t.Parallel() // a Cluster starts in seconds
	archive := readTraces(t)
	for i := range archive.Files {
		f := &archive.Files[i]
		if strings.HasSuffix(f.Name, ".yaml") {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			played := play(t, f, weir.NewMemory(), false)
			if *rewrite {
				f.Data = []byte(played)
				return
			}
			wantTrace(t, f, played)
			onEach(t, func(t *testing.T, e engine.Engine) { wantTrace(t, f, play(t, f, e, true)) })
			if strings.HasPrefix(f.Name, "cluster") {
				t.Run("cluster", func(t *testing.T) {
					wantTrace(t, f, play(t, f, onRedis(t, redistest.StartCluster(t).Conn(t)), false))
				})
			}
		})
	}
	if *rewrite {
		must.Do(t, os.WriteFile(traces, txtar.Format(archive), 0o644))
	}
}

func wantTrace(t *testing.T, f *txtar.File, got string) {
	t.Helper()
	want := strings.Split(string(f.Data), "\n")
	for i, line := range strings.Split(got, "\n") {
		if line != want[i] {
			t.Errorf("line %d\ngot  %s\nwant %s", i+1, line, want[i])
		}
	}
}

// play returns a trace with its outcomes on an engine.
func play(t *testing.T, f *txtar.File, e engine.Engine, withStates bool) string {
	t.Helper()
	var rules []*Rule // of the file in use
	var r *Rule
	var b strings.Builder
	for line := range strings.Lines(string(f.Data)) {
		call, _, decides := strings.Cut(line, " -> ")
		words := strings.Fields(call)
		if words[0] == "use" {
			rules = rulesOf(t, traceFile(t, words[1]), e)
			r = named(rules, words[2])
		}
		if !decides {
			b.WriteString(line)
			continue
		}
		outcome := ""
		if words[1] == "together" {
			outcome = stepTogether(t, rules, words)
		} else {
			outcome = r.step(t, words, withStates)
		}
		fmt.Fprintf(&b, "%s -> %s\n", call, outcome)
	}
	return b.String()
}

// start is the instant 0s of the traces.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	check  = engine.Attempt
	peek   = engine.Peek
	record = engine.Record
)

var ops = map[string]engine.Op{"check": check, "reserve": check, "peek": peek, "record": record, "refund": engine.Refund,
	"reset": engine.Reset, "block": engine.Block, "settle": engine.Settle, "extend": engine.Extend}

// request reads the words of a call: its instant, its operation, the key, the units and the id,
// the limits of a reset or a block, the times of a block and of a reservation, and the units that
// it had before an extension.
func (r *Rule) request(t *testing.T, words []string) (a Request) {
	t.Helper()
	duration, err := time.ParseDuration(strings.TrimPrefix(words[0], "@"))
	if err != nil {
		t.Fatal(err)
	}
	a = Request{Op: ops[words[1]], Reserve: words[1] == "reserve", Before: engine.Unknown, At: start.Add(duration)}
	var key []string
	for _, w := range words[2:] {
		if id, ok := strings.CutPrefix(w, "#"); ok {
			a.ID = id
		} else if limit, ok := strings.CutPrefix(w, "limit="); ok {
			a.Limits = append(a.Limits, limit)
		} else if length, ok := strings.CutPrefix(w, "for="); ok {
			var err error
			a.For, err = time.ParseDuration(length)
			if err != nil {
				t.Fatal(err)
			}
		} else if length, ok := strings.CutPrefix(w, "ttl="); ok {
			var err error
			a.TTL, err = time.ParseDuration(length)
			if err != nil {
				t.Fatal(err)
			}
		} else if units, ok := strings.CutPrefix(w, "before="); ok {
			var err error
			a.Before, err = strconv.ParseInt(units, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
		} else if w == "all" {
			a.N = engine.AllUnits
		} else if strings.Contains(w, "=") {
			key = append(key, w)
		} else {
			var err error
			a.N, err = strconv.ParseInt(w, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	pairs := pairsOf(strings.Join(key, " "))
	if a.Op == engine.Reset || a.Op == engine.Block {
		var err error
		a.Target, err = r.ResetTarget(pairs, a.Limits)
		if err != nil {
			t.Fatal(err)
		}
	} else {
		var err error
		a.Target, err = r.Target(pairs)
		if err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// stepTogether decides the attempts of a line together, each "POLICY KEY UNITS", with a + between
// them. It returns their outcomes.
func stepTogether(t *testing.T, rules []*Rule, words []string) string {
	t.Helper()
	var items []Item
	for part := range strings.SplitSeq(strings.Join(words[2:], " "), " + ") {
		name, rest, _ := strings.Cut(part, " ")
		r := named(rules, name)
		items = append(items, Item{Rule: r, Request: r.request(t, append([]string{words[0], "check"}, strings.Fields(rest)...))})
	}
	must.Do(t, DecideTogether(context.Background(), items))
	var all []string
	for i := range items {
		if items[i].Err != nil {
			t.Error(items[i].Err)
		}
		all = append(all, brief(&items[i].Outcome))
	}
	return strings.Join(all, "; ")
}

// numbers returns the maxima that apply to a request, with the plan and the override of them.
func (r *Rule) numbers(t *testing.T, a *Request) string {
	t.Helper()
	v := r.choose(&a.Key, a.Plan, a.At)
	if again := r.choose(&a.Key, a.Plan, a.At); again != v {
		t.Errorf("%v at %v: chosen anew", a.Key, a.At)
	}
	var most []int64
	for _, l := range v.Limits {
		most = append(most, l.Max)
	}
	text := fmt.Sprint(most)
	if v.Plan != "" {
		text += " plan " + v.Plan
	}
	if v.Why != "" {
		text += " override " + v.Why
	}
	return text
}

// step makes the call of a line and returns its outcome. The operation numbers makes no call.
func (r *Rule) step(t *testing.T, words []string, withStates bool) string {
	t.Helper()
	a := r.request(t, words)
	switch {
	case words[1] == "numbers":
		return r.numbers(t, &a)
	case a.Op == engine.Refund:
		a.From = a.At
	case withStates && a.Op <= record:
		a.States = make([]weir.LimitState, len(r.Limits))
	}
	o, err := r.Decide(context.Background(), &a)
	var bad *weir.InputError
	switch {
	case errors.As(err, &bad):
		return "error " + bad.Field
	case errors.Is(err, weir.ErrExpired):
		return "expired"
	case errors.Is(err, weir.ErrSettled):
		return "settled already"
	case err != nil:
		t.Fatal(err)
	case a.Op == engine.Reset:
		return "reset " + strings.Join(o.Limits, ",")
	case a.Op == engine.Block:
		return fmt.Sprintf("blocked %s for %v", strings.Join(o.Limits, ","), o.Blocked)
	case a.Op == engine.Settle:
		return fmt.Sprintf("settled %d of %d: refunded %d, recorded %d", o.Reserved.Actual, o.Reserved.Units, o.Granted, o.Recorded())
	case a.Op == engine.Refund:
		return fmt.Sprint("refunded ", o.Granted)
	case !o.Allowed && o.Granted != 0:
		t.Errorf("%s: denied, and %d units are granted", words, o.Granted)
	}
	if rest := o.Applied.Blocked.Sub(o.At); !r.Shadow && !o.Applied.Blocked.IsZero() && (o.Remaining > 0 || o.ResetAfter < rest) {
		t.Errorf("%s: %d remain, reset after %v; want none for %v", words, o.Remaining, o.ResetAfter, rest)
	}
	text := brief(&o)
	if x := &o.Reserved; x.Units > 0 {
		text += fmt.Sprintf(", reserved %d until %v", x.Units, time.UnixMicro(x.ExpiresAt).Sub(start))
	}
	if x := &o.Reserved; x.HeldUntil > 0 {
		text += fmt.Sprintf(", held until %v", time.UnixMicro(x.HeldUntil).Sub(start))
	}
	return text
}

// brief returns an outcome in one line, with the decision that a shadow does not enforce.
func brief(o *Outcome) string {
	s := verdict(&o.Decision)
	if o.Applied.Shadow {
		s += ", would be " + verdict(&o.Applied.Would)
	}
	if !o.Applied.Blocked.IsZero() {
		s += fmt.Sprintf(", until %v", o.Applied.Blocked.Sub(start))
	}
	if o.Replayed {
		s += ", replayed"
	}
	if o.Applied.Warnings != nil {
		s += ", warns " + strings.Join(o.Applied.Warnings, " ")
	}
	return s
}

func verdict(d *weir.Decision) string {
	if d.Allowed {
		return fmt.Sprintf("allowed %d, %s", d.Granted, wait(d))
	}
	return fmt.Sprintf("denied by %s for %s", cmp.Or(d.Limit, "others"), wait(d))
}

func wait(d *weir.Decision) string {
	if d.RetryAfter == weir.Never {
		return "never"
	}
	return d.RetryAfter.String()
}

// onEach runs a test on memory and on Redis.
func onEach(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Run("memory", func(t *testing.T) { test(t, weir.NewMemory()) })
	t.Run("redis", func(t *testing.T) { test(t, onRedis(t, redistest.Start(t).Conn(t))) })
}

func onRedis(t *testing.T, conn weirredis.Conn) engine.Engine {
	store, err := weirredis.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
