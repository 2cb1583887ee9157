package fallback_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

var rewrite = flag.Bool("rewrite", false, "write the outcomes of testdata/outages.txt instead of comparing with them")

// TestOutages plays testdata/outages.txt. A line "new" makes an engine and a policy, that of
// ten or of one limit for all callers. Then the store breaks and comes back, and calls for one
// key have an outcome: the decision, or the kinds of its error.
func TestOutages(t *testing.T) {
	const path = "testdata/outages.txt"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var played strings.Builder
	synctest.Test(t, func(t *testing.T) {
		var o *outage
		for line := range strings.Lines(string(text)) {
			call, want, decides := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
			words := strings.Fields(call)
			switch {
			case decides:
				began := time.Now()
				got := o.call(t, words)
				if took := time.Since(began); took > 0 {
					got += ", after " + took.String()
				}
				if line = call + " -> " + got + "\n"; got != want && !*rewrite {
					t.Errorf("%v: %s\ngot  %s\nwant %s", o.about, call, got, want)
				}
			case len(words) > 0 && words[0] == "new":
				o = newOutage(t, words)
			case len(words) > 0 && words[0] != "#":
				o.change(t, words)
			}
			played.WriteString(line)
		}
	})
	if *rewrite {
		must.Do(t, os.WriteFile(path, []byte(played.String()), 0o644))
	}
}

// outage is a store that breaks, with a limiter on it.
type outage struct {
	*store
	about []string // the line that made it
	allow bool     // its mode is Allow
	key   weir.Key
	grant time.Time // the instant of the last one
}

func newOutage(t *testing.T, words []string) *outage {
	t.Helper()
	p, key, opts := ten, weir.K("42"), []fallback.Option(nil)
	var mode engine.Outage
	switch words[1] {
	case "deny":
		mode = fallback.Deny
	case "allow":
		mode = fallback.Allow
	case "share":
		mode = fallback.Share
	case "unknown":
		mode = 7
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "max":
			p, key = of(int64(n)), weir.K()
		case "partial":
			p.Mode = weir.Partial
		case "counted":
			p.Mode = weir.CountDenied
		case "instances":
			opts = append(opts, fallback.Instances(n))
		case "threshold":
			opts = append(opts, fallback.FailureThreshold(n))
		case "timeout":
			duration, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			opts = append(opts, fallback.Timeout(duration))
		default:
			t.Fatalf("%q: unknown word %q", words, w)
		}
	}
	return &outage{store: newStore(t, p, mode, opts...), about: words, allow: mode == fallback.Allow, key: key}
}

// change breaks the store, or lets time pass.
func (o *outage) change(t *testing.T, words []string) {
	t.Helper()
	switch kind, length, _ := strings.Cut(strings.Join(words, " "), "="); kind {
	case "break down":
		o.Break(weirtest.Down())
	case "break lost":
		o.Break(weirtest.Lost())
	case "break silent":
		o.Break(weirtest.Silent())
	case "break slow":
		duration, err := time.ParseDuration(length)
		if err != nil {
			t.Fatal(err)
		}
		o.Break(weirtest.Slow(duration))
	case "restore":
		o.Restore()
	case "sleep 1s":
		time.Sleep(time.Second)
	default:
		t.Fatalf("unknown line %q", words)
	}
}

// call makes the call of a line and returns its outcome. It sends no call twice.
func (o *outage) call(t *testing.T, words []string) string {
	t.Helper()
	n, id := int64(0), ""
	for _, w := range words[1:] {
		if hash, ok := strings.CutPrefix(w, "#"); ok {
			id = hash
		} else {
			n, _ = strconv.ParseInt(w, 10, 64)
		}
	}
	before := o.Calls()
	c := weir.Call{Limiter: o.Limiter, Key: o.key, Request: weir.Request{N: n, ID: id}}
	switch words[0] {
	case "grants":
		return fmt.Sprint(granted(t, o.Limiter, 20))
	case "fail":
		o.fail(int(n))
		if o.fallback.Status().Cause != nil {
			return "down"
		}
		return "up"
	case "count":
		units, err := o.Count(ctx, o.key, o.Compiled().Limits[0].Name, time.Hour)
		if err != nil {
			return errorKinds(err)
		}
		return fmt.Sprint(units)
	case "reset":
		if _, err := o.Reset(ctx, o.key); err != nil {
			return errorKinds(err)
		}
		return "reset"
	case "check":
		if n == 0 {
			c.Op = engine.Peek
		}
	case "refund":
		c.Op, c.From = engine.Refund, o.grant
	case "peek":
		c.Op = engine.Peek
	case "record":
		c.Op = engine.Record
	}
	if c.Op != engine.Refund {
		c.Request.States = make([]weir.LimitState, len(o.Compiled().Limits))
	}
	d, err := c.Do(ctx)
	switch {
	case err != nil && d != (weir.Decision{}):
		t.Errorf("%v: %q: %+v with the error %v", o.about, words, d, err)
	case err != nil:
		return errorKinds(err)
	case c.Op == engine.Refund:
		return fmt.Sprintf("refunded %d%s", d.Granted, marks(&d))
	case d.Degraded && o.allow && (d.Remaining != 0 || d.ResetAfter != 0 || slices.ContainsFunc(c.Request.States, known)):
		t.Errorf("%v: %q: %+v and %+v; want unknown values as zero", o.about, words, d, c.Request.States)
	case o.Calls() > before+1 || time.Since(d.At) > time.Hour:
		t.Errorf("%v: %q: %d calls of the store, decided at %v", o.about, words, o.Calls()-before, d.At)
	}
	if o.grant = d.At; d.Allowed {
		s := fmt.Sprintf("allowed %d", d.Granted)
		if d.Limit != "" {
			s += " cut by " + d.Limit
		}
		return s + wait(&d) + use(c.Request.States) + marks(&d)
	}
	return "denied by " + d.Limit + wait(&d) + use(c.Request.States) + marks(&d)
}

func known(s weir.LimitState) bool { return s != weir.LimitState{} }

// use returns the use of the first limit, if it is known.
func use(states []weir.LimitState) string {
	if !known(states[0]) {
		return ""
	}
	return fmt.Sprintf(", %d used", states[0].Used)
}

func wait(d *weir.Decision) string {
	switch d.RetryAfter {
	case 0:
		return ""
	case weir.Never:
		return ", never more"
	}
	return ", again in " + d.RetryAfter.String()
}

func marks(d *weir.Decision) (s string) {
	if d.Degraded {
		s = ", degraded"
	}
	if d.Replayed {
		s += ", replayed"
	}
	return s
}

// errorKinds names the sentinels in an error, and the timeout.
func errorKinds(err error) string {
	s := "error"
	for _, kind := range []struct {
		name string
		err  error
	}{{" unavailable", weir.ErrUnavailable}, {" unknown", weir.ErrOutcomeUnknown}, {" id", &engine.InputError{Field: "id"}}, {" deadline", context.DeadlineExceeded}} {
		if errors.Is(err, kind.err) {
			s += kind.name
		}
	}
	if _, timeout, found := strings.Cut(err.Error(), "within the timeout of "); found {
		s += " timeout " + strings.TrimRight(strings.Fields(timeout)[0], ":")
	}
	return s
}
