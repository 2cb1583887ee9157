package conformance

import (
	"cmp"
	"context"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	detector "github.com/weirlimit/weir/internal/testkit/race"
)

// wrongEngine is the specification with one fault.
type wrongEngine struct {
	*spec.Engine
	rules  func(*engine.Compiled) // changes a copy of the rules
	key    func(string) string    // replaces a value of the key
	ask    func(*engine.Call)     // changes an attempt, a peek or a record
	answer func(*engine.Call)     // changes its result
	decide func(*spec.Engine, *engine.Call)
	last   func(int64) int64  // replaces the span of Count
	from   func(int64) int64  // replaces the instant of Refund
	took   func(*engine.Call) // changes the result of a refund
}

// decide decides one call.
func decide(e engine.Engine, c *engine.Call) {
	one := []engine.Call{*c}
	e.Do(context.Background(), one)
	c.Result, c.Err = one[0].Result, one[0].Err
}

// taken applies the faults of limits and keys to a call.
func (w *wrongEngine) taken(c *engine.Call) {
	if w.rules != nil {
		wrong := &engine.Compiled{Name: c.Rules.Name, Mode: c.Rules.Mode, Limits: slices.Clone(c.Rules.Limits)}
		w.rules(wrong)
		c.Rules = engine.Compile(wrong.Name, wrong.Mode, c.Rules.Dimensions, wrong.Limits)
	}
	if w.key != nil {
		var values []string
		for i := range c.Key.Len() {
			values = append(values, w.key(c.Key.Value(i)))
		}
		c.Key = weir.K(values...)
	}
}

func (w *wrongEngine) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		if calls[i].Err != nil {
			continue
		}
		c := calls[i]
		w.one(&c)
		calls[i].Result, calls[i].Err = c.Result, c.Err
	}
}

func (w *wrongEngine) one(c *engine.Call) {
	if c.Op != engine.Reset {
		limits := c.Rules.Limits
		defer func() { restore(c, limits) }()
		w.taken(c)
	}
	switch c.Op {
	case engine.Count:
		if w.last != nil {
			c.From = w.last(c.From)
		}
		w.decideBy(c)
		return
	case engine.Refund:
		if w.from != nil {
			c.From = w.from(c.From)
		}
		if w.decideBy(c); w.took != nil {
			w.took(c)
		}
		return
	case engine.Reset:
		w.decideBy(c)
		return
	}
	if w.ask != nil {
		w.ask(c)
	}
	if w.decideBy(c); w.answer != nil && c.Err == nil {
		w.answer(c)
	}
}

// decideBy decides a call, with the fault of decisions if there is one.
func (w *wrongEngine) decideBy(c *engine.Call) {
	if w.decide != nil {
		w.decide(w.Engine, c)
		return
	}
	decide(w.Engine, c)
}

// restore writes the numbers of the right limits to states: the fault is not that they are
// reported wrong.
func restore(c *engine.Call, limits []engine.Limit) {
	if c.Err != nil || c.Result.Replayed || c.Op > engine.Record && c.Op != engine.Probe {
		return
	}
	for i := range c.States {
		right, s := limits[i].Describe(), &c.States[i]
		s.Name, s.Max, s.Window = right.Name, right.Max, right.Window
		s.MaxHold, s.MinInterval = right.MaxHold, right.MinInterval
	}
}

// limitsOf is limitsWith for the limits of one kind.
func limitsOf(kind engine.Kind, change func(*engine.Limit)) func(*engine.Compiled) {
	return limitsWith(func(l *engine.Limit) {
		if l.Kind == kind {
			change(l)
		}
	})
}

// limitsWith returns a fault that changes every limit.
func limitsWith(change func(*engine.Limit)) func(*engine.Compiled) {
	return func(rules *engine.Compiled) {
		for i := range rules.Limits {
			change(&rules.Limits[i])
		}
	}
}

// periodsWith returns a fault that changes the windows of every period.
func periodsWith(change func(*engine.Calendar)) func(*engine.Compiled) {
	return limitsWith(func(l *engine.Limit) {
		if l.Period != nil {
			windows := *l.Period
			change(&windows)
			l.Period = &windows
		}
	})
}

// only returns the rules with one of their limits.
func only(c *engine.Compiled, i int) *engine.Compiled {
	return &engine.Compiled{Name: c.Limits[i].Policy, Dimensions: c.Dimensions, Limits: c.Limits[i : i+1]}
}

// checkThenAct peeks, and then records in a second step: right for one caller, wrong for
// concurrent ones.
func checkThenAct(e *spec.Engine, c *engine.Call) {
	if c.Op == engine.Attempt && c.N > 0 && c.Rules.Mode == engine.AllOrNothing && !c.Given {
		c.Op = engine.Peek
		if decide(e, c); c.Err != nil || !c.Result.Allowed {
			return
		}
		runtime.Gosched()
		c.Op = engine.Record
	}
	decide(e, c)
}

// limitByLimit decides the limits one after the other: units that a later one denies stay
// recorded in the earlier ones.
func limitByLimit(e *spec.Engine, c *engine.Call) {
	if c.Op != engine.Attempt || len(c.Rules.Limits) == 1 {
		decide(e, c)
		return
	}
	last := engine.Call{Key: c.Key, N: c.N, At: c.At, Given: c.Given}
	for i := range c.Rules.Limits {
		last.Rules = only(c.Rules, i)
		last.Rules.Mode = c.Rules.Mode
		if decide(e, &last); last.Err != nil || !last.Result.Allowed {
			break
		}
	}
	c.Op = engine.Peek
	decide(e, c)
	c.Result.Allowed, c.Result.Granted, c.Result.Limit = last.Result.Allowed, last.Result.Granted, last.Result.Limit
}

// recallThenAct looks an id up, decides, and remembers the id in a later step: right for one
// caller, wrong for many with one id. The first caller of all waits before that step until
// another one has looked up the same id.
func recallThenAct() func(*spec.Engine, *engine.Call) {
	var mu sync.Mutex
	known := map[string]engine.Result{}
	first, met := "", make(chan struct{})
	return func(e *spec.Engine, c *engine.Call) {
		id := c.ID
		mu.Lock()
		r, ok := known[id]
		leads := id != "" && first == ""
		if leads {
			first = id
		} else if id != "" && id == first {
			close(met)
			first = "over"
		}
		mu.Unlock()
		if r.Replayed = true; ok && id != "" {
			c.Result = r
			return
		}
		c.ID = ""
		if decide(e, c); leads { // with room for it: later the others may have taken all
			<-met
		}
		mu.Lock()
		defer mu.Unlock()
		if id != "" && c.Result.Granted > 0 {
			known[id] = c.Result
		}
	}
}

// forgetsKinds forgets the histories of a limit's other kinds at a decision after a change
// of its kind.
func forgetsKinds() func(*spec.Engine, *engine.Call) {
	var mu sync.Mutex
	kinds := map[string]engine.Kind{}
	return func(e *spec.Engine, c *engine.Call) {
		mu.Lock()
		defer mu.Unlock()
		for i, l := range c.Rules.Limits {
			name := l.Policy + "\x00" + l.Name
			if was, ok := kinds[name]; ok && was != l.Kind {
				decide(e, &engine.Call{Rules: only(c.Rules, i), Key: c.Key, Op: engine.Reset})
			}
			kinds[name] = l.Kind
		}
		decide(e, c)
	}
}

// recordsDenials records denied units in every mode.
func recordsDenials(e *spec.Engine, c *engine.Call) {
	if decide(e, c); c.Err == nil && !c.Result.Allowed && c.Op == engine.Attempt {
		record := *c
		record.Op, record.States = engine.Record, nil
		decide(e, &record)
	}
}

// wrong is a fault, and the layers that must see it.
type wrong struct {
	name   string
	fault  wrongEngine
	layers string // v, d, i, h, r, l, o and a for vectors, differential, instants, hammer, holds, live, once and appointments
}

// wrongEngines are faults that limiters have had.
var wrongEngines = []wrong{
	{"window a microsecond short", wrongEngine{rules: limitsWith(func(l *engine.Limit) {
		l.Window = max(l.Window-1, 1)
		l.MinInterval = min(l.MinInterval, l.Window)
	})}, "vd"},
	{"window a microsecond long", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Window++ })}, "vd"},
	{"window a fifth short", wrongEngine{rules: limitsWith(func(l *engine.Limit) {
		l.Window = max(l.Window*4/5, 1)
		l.MinInterval = min(l.MinInterval, l.Window)
	})}, "vdh"},
	{"one unit too many", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Max = min(l.Max+1, weir.MaxUnits) })}, "vdh"},
	{"one unit too few", wrongEngine{rules: limitsOf(weir.KindRolling, func(l *engine.Limit) { l.Max = max(l.Max-1, 0) })}, "vdh"},
	{"gap never enforced", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.MinInterval = 0 })}, "vdh"},
	{"cells ignored", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Cell = 0 })}, "vd"},
	{"kinds ignored", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Kind, l.Period = weir.KindRolling, nil })}, "vd"},
	{"the kinds of window mistaken for each other", wrongEngine{rules: limitsWith(func(l *engine.Limit) {
		if (l.Kind == weir.KindFixed || l.Kind == weir.KindFixedFromFirst) && l.Period == nil {
			l.Kind = weir.KindFixed + weir.KindFixedFromFirst - l.Kind
		}
	})}, "vdh"},
	{"every limit has windows of the calendar", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Kind, l.Cell = weir.KindFixed, 0 })}, "vdh"},
	{"buckets of one unit more", wrongEngine{rules: limitsOf(weir.KindBucket, func(l *engine.Limit) { l.Capacity++ })}, "vdh"},
	{"buckets refill a microsecond a window too fast", wrongEngine{rules: limitsOf(weir.KindBucket, func(l *engine.Limit) { l.Window-- })}, "vd"},
	{"buckets mistaken for windows", wrongEngine{rules: limitsOf(weir.KindBucket, func(l *engine.Limit) { l.Kind = weir.KindRolling })}, "vdh"},
	{"zones ignored", wrongEngine{rules: periodsWith(func(w *engine.Calendar) { w.Zone = time.UTC })}, "vd"},
	{"anchors ignored", wrongEngine{rules: periodsWith(func(w *engine.Calendar) { w.Anchor = 1 })}, "vd"},
	{"holds a microsecond short", wrongEngine{rules: limitsOf(weir.KindConcurrency, func(l *engine.Limit) { l.Window-- })}, "vd"},
	{"costs ignored", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Cost = 0 })}, "vd"},
	{"costs of a unit too much", wrongEngine{rules: limitsWith(func(l *engine.Limit) {
		if l.Cost > 0 {
			l.Cost = min(l.Cost+1, weir.MaxUnits)
		}
	})}, "vd"},
	{"mode ignored", wrongEngine{rules: func(c *engine.Compiled) { c.Mode = weir.AllOrNothing }}, "vd"},
	{"histories by place in the policy", wrongEngine{rules: func(c *engine.Compiled) {
		for i := range c.Limits {
			c.Limits[i].Name = string(rune('a' + i))
		}
	}}, "vd"},
	{"policies share histories", wrongEngine{rules: func(c *engine.Compiled) { c.Name = "all" }}, "v"},
	{"keys end at NUL", wrongEngine{key: func(v string) string { v, _, _ = strings.Cut(v, "\x00"); return v }}, "vd"},
	{"keys cut to 512 bytes", wrongEngine{key: func(v string) string { return v[:min(len(v), 512)] }}, "v"},
	{"instants in milliseconds", wrongEngine{ask: func(c *engine.Call) { c.At -= c.At % 1000 }}, "vd"},
	{"without an instant it decides in 1970", wrongEngine{ask: func(c *engine.Call) { c.Given = true }}, "i"},
	{"in 1970 it decides now", wrongEngine{ask: func(c *engine.Call) { c.Given = c.Given && c.At != 0 }}, "vi"},
	{"a peek is an attempt", wrongEngine{ask: func(c *engine.Call) {
		if c.Op == engine.Peek {
			c.Op = engine.Attempt
		}
	}}, "vdh"},
	{"wait a microsecond short", wrongEngine{answer: func(c *engine.Call) {
		if c.Result.RetryAfter > 0 {
			c.Result.RetryAfter -= us
		}
	}}, "vd"},
	{"wait in milliseconds", wrongEngine{answer: func(c *engine.Call) { c.Result.RetryAfter = c.Result.RetryAfter.Round(time.Millisecond) }}, "vd"},
	{"never is a long wait", wrongEngine{answer: func(c *engine.Call) {
		if c.Result.RetryAfter == weir.Never {
			c.Result.RetryAfter = time.Hour
		}
	}}, "vd"},
	{"never is below every wait", wrongEngine{answer: func(c *engine.Call) {
		if c.Result.RetryAfter == weir.Never {
			c.Result.RetryAfter = -1
		}
	}}, "vd"},
	{"count a microsecond long", wrongEngine{last: func(last int64) int64 { return last + 1 }}, "vd"},
	{"denials are recorded", wrongEngine{decide: recordsDenials}, "vdh"},
	{"refunds of the oldest take nothing", wrongEngine{from: func(at int64) int64 { return max(at, 0) }}, "vd"},
	{"every refund takes from the oldest", wrongEngine{from: func(int64) int64 { return engine.Oldest }}, "vd"},
	{"refunds have the instant of the clock", wrongEngine{took: func(c *engine.Call) { c.Result.At = time.UnixMicro(c.At) }}, "i"},
	{"a changed kind forgets the others", wrongEngine{decide: forgetsKinds()}, "vd"},
	{"instants of 51 bits", wrongEngine{ask: func(c *engine.Call) { c.At &= 1<<51 - 1 }}, "vd"},
	{"limit by limit", wrongEngine{decide: limitByLimit}, "vdh"},
	{"denials are marked as cached", wrongEngine{answer: func(c *engine.Call) { c.Result.Cached = !c.Result.Allowed }}, "vdhlo"},
	{"check then act", wrongEngine{decide: checkThenAct}, "h"},
	{"ids ignored", wrongEngine{ask: func(c *engine.Call) { c.ID = "" }}, "vdo"},
	{"an id is known before it is recorded", wrongEngine{decide: recallThenAct()}, "o"},
	{"ids of records ignored", wrongEngine{ask: func(c *engine.Call) {
		if c.Op == engine.Record {
			c.ID = ""
		}
	}}, "vd"},
	{"ids cut short", wrongEngine{ask: func(c *engine.Call) { c.ID = c.ID[:min(len(c.ID), 127)] }}, "v"},
}

// TestWrongEngines: the kit finds every fault in the expected layers, and its report quotes
// a rule.
func TestWrongEngines(t *testing.T) {
	for _, wrong := range slices.Concat(wrongEngines, wrongReservations, wrongBlocks, wrongAppointments) {
		t.Run(wrong.name, func(t *testing.T) {
			t.Parallel()
			newEngine := func() engine.Engine {
				w := wrong.fault
				w.Engine = spec.New()
				return &w
			}
			for _, layer := range strings.Split(wrong.layers, "") {
				report := reportOfFault(t, layer, newEngine)
				if report == "" {
					t.Errorf("layer %s did not see it", layer)
				} else if !quotesRule.MatchString(report) {
					t.Errorf("layer %s quotes no rule: %s", layer, report)
				} else if layer == "d" {
					wantPasteable(t, report, newEngine())
				}
			}
		})
	}
}

// TestNoFault: without a fault the wrong engine is right, so that no layer sees its disguise.
func TestNoFault(t *testing.T) {
	for name, fault := range map[string]wrongEngine{
		"none":   {},
		"decide": {decide: func(e *spec.Engine, c *engine.Call) { decide(e, c) }},
	} {
		if detector.Enabled && fault.decide == nil {
			continue // the other one runs the same code and more
		}
		for _, layer := range strings.Split("vdihrlo", "") {
			t.Run(name+"/"+layer, func(t *testing.T) {
				t.Parallel()
				newEngine := func() engine.Engine {
					w := fault
					w.Engine = spec.New()
					return &w
				}
				var report string
				if layer == "d" {
					report = differentialReport(newEngine, detector.Fewer(30_000))
				} else {
					report = layerReport(t, layer, 1, newEngine)
				}
				if report != "" {
					t.Error(report)
				}
			})
		}
	}
}

var quotesRule = regexp.MustCompile(`\n *R\d+: `)

// reportOfFault returns the layer's report about a wrong engine, or "". A layer with many
// callers gets ten tries, because calls may overlap too rarely on a busy machine.
func reportOfFault(t *testing.T, layer string, newEngine func() engine.Engine) string {
	t.Helper()
	for seed := range uint64(10) {
		if report := layerReport(t, layer, seed+1, newEngine); report != "" {
			return report
		}
	}
	return ""
}

// differentialReport returns the report of the differential about the engine, or "".
func differentialReport(newEngine func() engine.Engine, attempts int) string {
	return (&differential{c: DefaultConfig(nil), newEngine: newEngine, shards: 1}).run(attempts)
}

// layerReport returns one layer's report about the engine, or "". The seed chooses the
// histories of the layers with many callers.
func layerReport(t *testing.T, layer string, seed uint64, newEngine func() engine.Engine) (report string) {
	t.Helper()
	switch layer {
	case "v":
		return vectorReport(t, newEngine)
	case "d":
		return differentialReport(newEngine, 30_000)
	case "a":
		return appointments(newEngine(), Config{Hammers: 60, Goroutines: 16, Seed: seed})
	case "i":
		return instants(newEngine(), Config{})
	case "o":
		c := Config{Goroutines: 8, Seed: seed}
		return cmp.Or(once(newEngine(), c), settledOnce(newEngine(), c))
	case "r":
		return auditHolds(newEngine(), Config{Hammers: 6, Seed: seed})
	case "l":
		return live(newEngine(), Config{Hammers: 4, Seed: seed})
	}
	_, report = hammer(newEngine(), Config{Hammers: 40, Goroutines: 8, Seed: seed})
	return report
}

func vectorReport(t *testing.T, newEngine func() engine.Engine) string {
	t.Helper()
	for _, v := range allVectors(t, vectorFiles) {
		if m, err := v.run(newEngine()); err != nil {
			t.Fatal(err)
		} else if m != nil {
			return m.String()
		}
	}
	return ""
}

// wantPasteable checks that the report ends in a short vector that the
// specification passes and the engine does not.
func wantPasteable(t *testing.T, report string, e engine.Engine) {
	t.Helper()
	_, text, _ := strings.Cut(report, "\n\n")
	vectors, err := parseVectors("report", text)
	if err != nil || len(vectors) != 1 {
		t.Errorf("cannot paste the vector: %v\n%s", err, report)
		return
	}
	v := vectors[0]
	if m, err := v.run(spec.New()); err != nil || m != nil {
		t.Errorf("the specification fails the vector: %v %v\n%s", err, m, report)
	}
	if m, err := v.run(e); err != nil || m == nil {
		t.Errorf("the engine passes the vector: %v\n%s", err, report)
	}
	if asked := len(slices.DeleteFunc(v.steps, func(s step) bool { return !s.callsEngine() })); asked > 6 {
		t.Errorf("the vector is not short: %d steps\n%s", asked, report)
	}
}
