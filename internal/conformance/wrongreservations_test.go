package conformance

import (
	"errors"
	"runtime"
	"sync"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// memories are what faults remember of a reservation, by its policy and id.
type memories[T any] struct {
	mu sync.Mutex
	m  map[string]T
}

func (m *memories[T]) get(c *engine.Call) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[c.Rules.Name+" "+c.ID]
	return v, ok
}

func (m *memories[T]) set(c *engine.Call, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[string]T{}
	}
	m.m[c.Rules.Name+" "+c.ID] = v
}

// onlyOp returns a fault that changes calls of one operation.
func onlyOp(op engine.Op, change func(*engine.Call)) func(*engine.Call) {
	return func(c *engine.Call) {
		if c.Op == op {
			change(c)
		}
	}
}

// also makes another call for the key and the instant of c.
func also(e engine.Engine, c *engine.Call, other engine.Call) *engine.Call {
	other.Rules, other.Key, other.At, other.Given = c.Rules, c.Key, c.At, c.Given
	decide(e, &other)
	return &other
}

// refundsAgain takes the unused units back again if a settlement is repeated.
func refundsAgain(e *spec.Engine, c *engine.Call) {
	if decide(e, c); c.Op == engine.Settle && c.Result.Replayed && c.Result.Granted > 0 {
		also(e, c, engine.Call{Op: engine.Refund, N: c.Result.Granted, From: engine.Oldest})
	}
}

// refundsOldest takes the unused units from the oldest entries.
func refundsOldest(e *spec.Engine, c *engine.Call) {
	if decide(e, c); c.Op != engine.Settle || c.Result.Granted == 0 || c.Result.Replayed {
		return
	}
	also(e, c, engine.Call{Op: engine.Record, N: c.Result.Granted})
	also(e, c, engine.Call{Op: engine.Refund, N: c.Result.Granted, From: engine.Oldest})
}

// forgetsMore does not record the units beyond the grant.
func forgetsMore(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if r := c.Reservation; c.Op == engine.Settle && c.Err == nil && !c.Result.Replayed && r.Actual > r.Units {
		also(e, c, engine.Call{Op: engine.Refund, N: r.Actual - r.Units, From: c.Result.At.UnixMicro()})
	}
}

// settlesTwice takes another number as a repetition.
func settlesTwice(e *spec.Engine, c *engine.Call) {
	first := *c
	if decide(e, c); errors.Is(c.Err, engine.ErrSettled) && c.Op == engine.Settle {
		*c = first
		c.Result, c.Err = engine.Result{Replayed: true}, nil
	}
}

// takesSettledForExpired confuses the errors of a reservation.
func takesSettledForExpired(e *spec.Engine, c *engine.Call) {
	if decide(e, c); errors.Is(c.Err, engine.ErrSettled) {
		c.Err = engine.ErrExpired
	}
}

// endsEndedHolds settles all units also after the hold has ended.
func endsEndedHolds() func(*spec.Engine, *engine.Call) {
	var units memories[int64]
	return func(e *spec.Engine, c *engine.Call) {
		n, ok := units.get(c)
		if ok && c.Op == engine.Settle && c.N == engine.AllUnits {
			c.N = n
		}
		if decide(e, c); c.Reservation != nil && c.Reservation.Units > 0 {
			units.set(c, c.Reservation.Units)
		}
	}
}

// liveLonger lets reservations live a microsecond longer than they say.
func liveLonger(e *spec.Engine, c *engine.Call) {
	if c.TTL > 0 {
		c.TTL++
	}
	if decide(e, c); c.Reservation != nil && c.Reservation.Units > 0 {
		c.Reservation.ExpiresAt--
	}
}

// forgetsReservations forgets the reservations of a key at a reset.
func forgetsReservations() func(*spec.Engine, *engine.Call) {
	var mu sync.Mutex
	resets, opened := map[string]int{}, memories[int]{}
	return func(e *spec.Engine, c *engine.Call) {
		mu.Lock()
		if c.Op == engine.Reset {
			resets[c.Rules.Name]++
		}
		n := resets[c.Rules.Name]
		mu.Unlock()
		was, ok := opened.get(c)
		if ok && was != n && (c.Op == engine.Settle || c.Op == engine.Extend) {
			c.Fail(engine.ErrExpired)
			return
		}
		if decide(e, c); c.TTL > 0 && !ok {
			opened.set(c, n)
		}
	}
}

// ignoresKeys finds a reservation of the id under any key.
func ignoresKeys() func(*spec.Engine, *engine.Call) {
	var keys memories[engine.Key]
	return func(e *spec.Engine, c *engine.Call) {
		if key, ok := keys.get(c); ok && (c.Op == engine.Settle || c.Op == engine.Extend) && key.Len() == c.Key.Len() {
			c.Key = key
		}
		if decide(e, c); c.TTL > 0 && c.Result.Granted > 0 {
			keys.set(c, c.Key)
		}
	}
}

// mixesIDs takes an id of an attempt with a time to live and one without for the same.
func mixesIDs(e *spec.Engine, c *engine.Call) {
	again := *c
	if decide(e, c); c.Op == engine.Attempt && errors.Is(c.Err, &engine.InputError{Field: "id"}) {
		*c = again
		if c.TTL++; again.TTL > 0 {
			c.TTL = 0
		}
		decide(e, c)
	}
}

// extendsInPart takes as many further units as fit.
func extendsInPart(e *spec.Engine, c *engine.Call) {
	again := *c
	if decide(e, c); c.Op == engine.Extend && c.Err == nil && !c.Result.Allowed && c.Result.Remaining > 0 {
		again.N = c.Result.Remaining
		*c = again
		decide(e, c)
	}
}

// settleThenAct looks a reservation up, gives units back, and settles in a later step: right for
// one caller, wrong for many. The first caller waits before that step until another one has looked
// the same reservation up.
func settleThenAct() func(*spec.Engine, *engine.Call) {
	var mu sync.Mutex
	settled := map[string]engine.Call{}
	first, met := "", make(chan struct{})
	return func(e *spec.Engine, c *engine.Call) {
		if c.Op != engine.Settle {
			decide(e, c)
			return
		}
		name := c.Rules.Name + c.ID
		mu.Lock()
		was, ok := settled[name]
		leads := first == ""
		if leads {
			first = name
		} else if first == name {
			close(met)
			first = "over"
		}
		mu.Unlock()
		if ok && c.N != was.N {
			c.Fail(engine.ErrSettled)
			return
		}
		if leads {
			<-met
		}
		runtime.Gosched()
		if decide(e, c); errors.Is(c.Err, engine.ErrSettled) {
			c.Err = nil
			c.Result = engine.Result{At: was.Result.At}
			return
		}
		mu.Lock()
		settled[name] = *c
		mu.Unlock()
	}
}

// prolongs renews a block at each denial.
func prolongs(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if i := c.Rules.LimitNamed(c.Result.Limit); i >= 0 && c.Result.Blocked > 0 && c.Op == engine.Attempt && c.N > 0 {
		block(e, c, i)
	}
}

// block begins the block of limit i.
func block(e *spec.Engine, c *engine.Call, i int) {
	if l := &c.Rules.Limits[i]; l.Block > 0 {
		one := *c
		one.Rules = only(c.Rules, i)
		also(e, &one, engine.Call{Op: engine.Block, From: l.Block})
	}
}

// denyThenBlock denies, and begins the block in a later step: right for one caller, wrong for many.
func denyThenBlock(e *spec.Engine, c *engine.Call) {
	if c.Op != engine.Attempt || c.N == 0 || c.Given {
		decide(e, c)
		return
	}
	c.Op = engine.Peek
	decide(e, c)
	i := c.Rules.LimitNamed(c.Result.Limit)
	if c.Result.Allowed || c.Result.Blocked > 0 || i < 0 || c.Rules.Limits[i].Block == 0 {
		c.Op = engine.Attempt
		decide(e, c)
		return
	}
	runtime.Gosched()
	block(e, c, i)
	c.Result.Blocked = duration(c.Rules.Limits[i].Block)
}

// recordsBlocked records the attempts that a block denies if the policy counts denials.
func recordsBlocked(e *spec.Engine, c *engine.Call) {
	blocked := also(e, c, engine.Call{Op: engine.Peek}).Result.Blocked > 0
	if decide(e, c); blocked && c.Op == engine.Attempt && c.N > 0 && c.Rules.Mode == engine.CountDenied && !c.Result.Replayed {
		also(e, c, engine.Call{Op: engine.Record, N: c.N})
	}
}

// blocksReplays denies a replay while a block runs.
func blocksReplays(e *spec.Engine, c *engine.Call) {
	if decide(e, c); c.Op == engine.Attempt && c.Result.Replayed {
		if now := also(e, c, engine.Call{Op: engine.Peek, N: c.N}); now.Result.Blocked > 0 {
			c.Result = now.Result
		}
	}
}

// blocksRecords records nothing while a block runs.
func blocksRecords(e *spec.Engine, c *engine.Call) {
	if c.Op == engine.Record && also(e, c, engine.Call{Op: engine.Peek}).Result.Blocked > 0 {
		c.Op = engine.Peek
	}
	decide(e, c)
}

// blocksAfterParts begins a block after a partial grant.
func blocksAfterParts(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if i := c.Rules.LimitNamed(c.Result.Limit); i >= 0 && c.Op == engine.Attempt && c.Result.Allowed && !c.Result.Replayed {
		block(e, c, i)
	}
}

// blocksExtensions begins a block after a denied extension.
func blocksExtensions(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if i := c.Rules.LimitNamed(c.Result.Limit); i >= 0 && c.Op == engine.Extend && !c.Result.Allowed {
		block(e, c, i)
	}
}

// keepsBlocks keeps blocks at a reset.
func keepsBlocks() func(*spec.Engine, *engine.Call) {
	var mu sync.Mutex
	last := map[string]engine.Call{} // the newest call of the policy, for the instant
	return func(e *spec.Engine, c *engine.Call) {
		if c.Op != engine.Reset {
			decide(e, c)
			mu.Lock()
			last[c.Rules.Name] = *c
			mu.Unlock()
			return
		}
		mu.Lock()
		c.At, c.Given = last[c.Rules.Name].At, true
		mu.Unlock()
		rest := also(e, c, engine.Call{Op: engine.Peek}).Result.Blocked
		if decide(e, c); rest > 0 {
			also(e, c, engine.Call{Op: engine.Block, From: rest.Microseconds()})
		}
	}
}

// shortensBlocks lets a shorter time take the place of a running block.
func shortensBlocks(e *spec.Engine, c *engine.Call) {
	if c.Op == engine.Block && c.From > 0 {
		also(e, c, engine.Call{Op: engine.Block})
	}
	decide(e, c)
}

// neverEndsBlocks ends no blocks.
func neverEndsBlocks(e *spec.Engine, c *engine.Call) {
	if c.Op == engine.Block && c.From == 0 {
		c.Result = engine.Result{At: also(e, c, engine.Call{Op: engine.Peek}).Result.At}
		return
	}
	decide(e, c)
}

// withoutHolds returns a fault that leaves the concurrency limits out of an operation.
func withoutHolds(op engine.Op) func(*spec.Engine, *engine.Call) {
	return func(e *spec.Engine, c *engine.Call) {
		var rates []engine.Limit
		for _, l := range c.Rules.Limits {
			if l.Kind != engine.KindConcurrency {
				rates = append(rates, l)
			}
		}
		if c.Op == op && len(rates) > 0 {
			c.Rules, c.States = engine.Compile(c.Rules.Name, c.Rules.Mode, c.Rules.Dimensions, rates), nil
		}
		decide(e, c)
	}
}

// chargesCostsAgain charges a fixed cost for the units beyond the grant.
func chargesCostsAgain(e *spec.Engine, c *engine.Call) {
	decide(e, c)
	if r := c.Reservation; c.Op == engine.Settle && c.Err == nil && !c.Result.Replayed && r.Actual > r.Units {
		for i, l := range c.Rules.Limits {
			if l.Cost > 0 {
				one := *c
				one.Rules = only(c.Rules, i)
				also(e, &one, engine.Call{Op: engine.Record, N: 1})
			}
		}
	}
}

// wrongReservations are faults of reservations (R19).
var wrongReservations = []wrong{
	{"lives ignored", wrongEngine{ask: func(c *engine.Call) { c.TTL = 0 }}, "vdor"},
	{"a reservation lives a microsecond longer", wrongEngine{decide: liveLonger}, "vd"},
	{"repeated settlements take units back again", wrongEngine{decide: refundsAgain}, "vdr"},
	{"settlements take from the oldest", wrongEngine{decide: refundsOldest}, "vdr"},
	{"units beyond the grant are not recorded", wrongEngine{decide: forgetsMore}, "vdr"},
	{"another number is a repetition", wrongEngine{decide: settlesTwice}, "vdor"},
	{"settled is expired", wrongEngine{decide: takesSettledForExpired}, "vdr"},
	{"all units are settled without a hold", wrongEngine{decide: endsEndedHolds()}, "vdr"},
	{"a reset forgets reservations", wrongEngine{decide: forgetsReservations()}, "vdr"},
	{"reservations without a key", wrongEngine{decide: ignoresKeys()}, "vd"},
	{"ids with and without a life are one", wrongEngine{decide: mixesIDs}, "vd"},
	{"an extension takes what fits", wrongEngine{decide: extendsInPart}, "vd"},
	{"a repeated extension is made again", wrongEngine{ask: onlyOp(engine.Extend, func(c *engine.Call) { c.From = engine.Unknown })}, "vdor"},
	{"an extension takes no units", wrongEngine{ask: onlyOp(engine.Extend, func(c *engine.Call) { c.N = 0 })}, "vdor"},
	{"a denied extension begins a block", wrongEngine{decide: blocksExtensions}, "vd"},
	{"extensions leave holds", wrongEngine{decide: withoutHolds(engine.Extend)}, "vdr"},
	{"settlements leave holds", wrongEngine{decide: withoutHolds(engine.Settle)}, "vdor"},
	{"a cost is charged twice", wrongEngine{decide: chargesCostsAgain}, "vd"},
	{"a settlement looks and acts in two steps", wrongEngine{decide: settleThenAct()}, "or"},
}

// wrongBlocks are faults of blocks (R20).
var wrongBlocks = []wrong{
	{"blocks ignored", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Block = 0 })}, "vdh"},
	{"blocks a microsecond short", wrongEngine{rules: limitsWith(func(l *engine.Limit) { l.Block = max(l.Block-1, 0) })}, "vdh"},
	{"every denial begins the block of the first limit", wrongEngine{rules: func(c *engine.Compiled) {
		for i := range c.Limits {
			c.Limits[i].Block = c.Limits[0].Block
		}
	}}, "vdh"},
	{"denials prolong a block", wrongEngine{decide: prolongs}, "vdh"},
	{"a denial by a block is counted", wrongEngine{decide: recordsBlocked}, "vd"},
	{"a peek begins a block", wrongEngine{ask: onlyOp(engine.Peek, func(c *engine.Call) { c.Op = engine.Probe })}, "vdh"},
	{"a probe begins no block", wrongEngine{ask: onlyOp(engine.Probe, func(c *engine.Call) { c.Op = engine.Peek })}, "vd"},
	{"a probe is charged", wrongEngine{ask: onlyOp(engine.Probe, func(c *engine.Call) { c.Op = engine.Attempt })}, "vd"},
	{"a block denies replays", wrongEngine{decide: blocksReplays}, "vd"},
	{"a block denies records", wrongEngine{decide: blocksRecords}, "vd"},
	{"a partial grant begins a block", wrongEngine{decide: blocksAfterParts}, "vd"},
	{"a reset keeps blocks", wrongEngine{decide: keepsBlocks()}, "vd"},
	{"a shorter block ends a longer one", wrongEngine{decide: shortensBlocks}, "vd"},
	{"blocks of 0 end none", wrongEngine{decide: neverEndsBlocks}, "vd"},
	{"a block begins in a step of its own", wrongEngine{decide: denyThenBlock}, "h"},
}
