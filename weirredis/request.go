package weirredis

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/weirlimit/weir/engine"
)

// request is one call for the script decide, with its keys and its packed arguments.
// lua/requests.lua describes their layout. A request does not refer to the call, because it may be
// in flight after its caller has left.
type request struct {
	several   []string // the keys of the histories, nil for a single one
	joined    string   // all keys of histories in one string
	operation string   // the key of the operation, if there is an idempotency key
	plan      *plan
	arg       [argBytes]byte
	op        engine.Op
	n         int64
	mode      engine.Mode
	states    bool
	reserves  bool   // the reply ends with a reservation
	ahead     bool   // it may wait, or a history has appointments (R18)
	maxWait   int64  // microseconds
	windows   int64  // if ahead: the windows of Periods up to the one of this instant are sent
	version   uint32 // denialCache.version before the request is sent
}

// plan is the packed limits of rules.
type plan struct {
	text   string
	until  int64 // the windows of Periods in text are current before this instant; 0 = always
	parts  parts // the parts of scripts that attempts of one unit need
	blocks bool  // some limit has a block

	// ahead is the number of further requests that are sent to the script that reads appointments,
	// because an earlier request found some. Other requests take a second call if they find any.
	ahead *atomic.Int32

	// These are set in a plan with Periods.
	bare   string // text with only the window around the instant, without later windows
	limits []engine.Limit
	around int64 // the instant around which the windows in bare lie
}

// aheadFor is the number of requests of a plan that expect appointments after one that found some.
const aheadFor = 64

// expectsAhead reports whether a request of the plan is sent to the script that reads appointments.
func (p *plan) expectsAhead() bool { return p.ahead.Load() > 0 && p.ahead.Add(-1) >= 0 }

const (
	argBytes = 1 + 1 + 7 + 7 + 7 // a request behind the number of its plan

	// These are above every instant and every number of units, and exact in Lua. serverClock
	// replaces an instant and selects the server's clock. unnamed replaces engine.Oldest,
	// engine.AllUnits and engine.Unknown, which are below 0.
	serverClock = engine.MaxInstant + 1
	unnamed     = engine.MaxInstant + 1

	flagStates    = 1
	flagOperation = 2
	flagWaits     = 4

	planBlocks  = 2 // in the form of a plan: some limit has a block
	planWindows = 4 // the ends of windows follow
)

// newRequest packs a call, which is no reset.
func (e *Engine) newRequest(c *engine.Call) request {
	req := request{op: c.Op, n: c.N, mode: c.Rules.Mode}
	req.states = c.States != nil && (c.Op < engine.Refund || c.Op == engine.Probe)
	req.plan, req.maxWait = e.planOf(c), c.MaxWait
	req.ahead = req.maxWait > 0 || req.plan.expectsAhead()
	flags, at := byte(0), int64(serverClock)
	if req.states {
		flags |= flagStates
	}
	if c.ID != "" && req.hasID() {
		flags |= flagOperation
		req.operation = e.operationKey(c.Rules, &c.Key, c.ID)
		opens := c.Op == engine.Attempt && c.TTL > 0
		req.reserves = opens || c.Op == engine.Settle || c.Op == engine.Extend
	}
	if c.Given {
		at = c.At
	}
	if req.maxWait > 0 {
		flags |= flagWaits
	}
	if req.ahead {
		req.plan = req.plan.withWindows(0)
	}
	b := append(req.arg[:0], byte(c.Op), flags)
	append7(append7(append7(b, at), orUnnamed(c.N)), orUnnamed(req.number(c)))
	req.several, req.joined = e.keysOf(c.Rules, &c.Key)
	if c.Op == engine.Count { // only one history, because the instant depends on no other
		req.joined, req.several = req.keys()[c.Limit], nil
	}
	req.version = e.cache.version(&req)
	return req
}

// number returns the number of a request that depends on its operation.
func (req *request) number(c *engine.Call) int64 {
	limit := &c.Rules.Limits[c.Limit]
	switch c.Op {
	case engine.Attempt:
		if req.reserves {
			return c.TTL
		}
		return 0
	case engine.Count:
		if limit.Kind == engine.KindFixed || limit.Kind == engine.KindFixedFromFirst {
			return limit.Window // only the beginning of the window is stored (R11)
		}
		return c.From
	case engine.Refund, engine.Extend, engine.Block:
		return c.From
	}
	return 0
}

// orUnnamed returns a number as the script reads it.
func orUnnamed(v int64) int64 {
	if v < 0 {
		return unnamed
	}
	return v
}

// keys returns the keys of the histories, in the order of the limits.
func (req *request) keys() []string {
	if req.several == nil {
		return []string{req.joined}
	}
	return req.several
}

// keysAtFault returns the key with a number among those of the request, or all keys of histories if
// there is no such number.
func (req *request) keysAtFault(number int) []string {
	keys := req.keys()
	switch {
	case number > 0 && number <= len(keys):
		return keys[number-1 : number]
	case number == len(keys)+1 && req.operation != "":
		return []string{req.operation}
	}
	return keys
}

// limits returns the number of limits.
func (req *request) limits() int { return max(1, len(req.several)) }

// hasID reports whether an ID of the call counts: a request that records or takes back nothing
// is not remembered.
func (req *request) hasID() bool {
	switch req.op {
	case engine.Attempt, engine.Record, engine.Refund:
		return req.n > 0
	}
	return req.op == engine.Settle || req.op == engine.Extend
}

// writes reports whether the request can write to a history.
func (req *request) writes() bool {
	return req.hasID() || req.op == engine.Block || req.op == engine.Probe && req.n > 0
}

// canCache reports whether a denial may be answered from memory: the denied attempts
// themselves must not be recorded.
func (req *request) canCache() bool {
	isAttempt := req.op == engine.Attempt && req.n > 0 // an attempt of 0 units is a peek
	return isAttempt && req.mode != engine.CountDenied && !req.states && req.operation == ""
}

// planOf returns the packed limits of a call. The windows of Periods are those around the
// instant of the call, by the clock of this process.
func (e *Engine) planOf(c *engine.Call) *plan {
	if c.Op == engine.Count {
		return newPlan(c, e.around(c))
	}
	p := e.plans.Get(c.Rules)
	if p != nil && (p.until == 0 || !c.Given && e.now().UnixMicro() < p.until) {
		return p
	}
	p = newPlan(c, e.around(c))
	if p.until > 0 && c.Given {
		return p
	}
	return e.plans.Put(c.Rules, *p)
}

// around returns the instant in the windows of Periods that are sent.
func (e *Engine) around(c *engine.Call) int64 {
	if !c.Given {
		return e.now().UnixMicro()
	}
	return c.At
}

// newPlan packs the limits of a call. The windows of Periods are those around an instant.
func newPlan(c *engine.Call, around int64) *plan {
	limits := c.Rules.Limits
	if c.Op == engine.Count {
		limits = limits[c.Limit : c.Limit+1]
	}
	p := &plan{ahead: new(atomic.Int32)}
	var room [256]byte
	b := append7(append(room[:0], byte(c.Rules.Mode), byte(len(limits)), 1),
		c.Rules.IdempotencyTTL.Microseconds())
	for i := range limits {
		l := &limits[i]
		kind, three := numbers(l, around)
		if c.Rules.Mode == engine.CountDenied || !isPlain(l, kind, three) {
			b[2] = 0
			p.parts |= partOther
		}
		if l.Kind == engine.KindBucket {
			p.parts |= partBucket
		} else {
			p.parts |= partHistory
		}
		b = append7(append(b, kind), l.Capacity)
		b = append6(append6(b, l.Window), l.MinInterval)
		b = binary.BigEndian.AppendUint64(b, uint64(l.Cost))
		for _, v := range three {
			b = append7(b, v)
		}
		if l.Period != nil && (p.until == 0 || three[1] < p.until) {
			p.until = three[1]
		}
	}
	if slices.ContainsFunc(limits, blocks) {
		p.blocks = true
		if b[2] == 0 {
			p.parts |= partBlock
		}
		b[2] += planBlocks
		b = appendBlocks(b, limits, c.Rules.Calls)
	}
	if p.text = string(b); p.until > 0 {
		p.bare = p.text
		p.limits = limits
		p.around = around
	}
	return p
}

// isPlain reports whether the short script decides a limit, with its packed kind and numbers: exact
// rolling windows with a Max above 0, and nothing else.
func isPlain(l *engine.Limit, kind byte, three [3]int64) bool {
	isRolling := kind == 0 && three[0] == 0
	return isRolling && l.Capacity > 0 && l.MinInterval == 0 && l.Cost == 0
}

// minWindows is the number of windows of a Period that a request has, if it may find appointments.
const minWindows = 16

// withWindows returns the plan with the ends of the windows of each Period, until that of an
// instant. Appointments in windows behind that of now leave at their ends.
func (p *plan) withWindows(until int64) *plan {
	if p.bare == "" {
		return p
	}
	var tail []byte
	for i := range p.limits {
		period, ends := p.limits[i].Period, []byte(nil)
		if period != nil {
			_, end := period.WindowAt(p.around)
			for n := 0; n < minWindows || end <= until; n++ {
				ends = append7(ends, end)
				_, end = period.WindowAt(end)
			}
			ends = append7(ends, end)
		}
		tail = append(binary.BigEndian.AppendUint16(tail, uint16(len(ends)/7)), ends...)
	}
	copied := *p
	text := append([]byte(p.bare), tail...)
	text[2] += planWindows
	copied.text = string(binary.BigEndian.AppendUint32(text, uint32(len(tail)+4)))
	return &copied
}

// blocks reports whether a denial by the limit begins a block (R20).
func blocks(l engine.Limit) bool { return l.Block > 0 }

// appendBlocks appends the block of each limit and, of joined rules, the limits of each call: each
// of these calls begins a block of its own (R20).
func appendBlocks(b []byte, limits []engine.Limit, calls [][]int) []byte {
	for i := range limits {
		b = append6(b, limits[i].Block)
	}
	for _, places := range calls {
		b = append(b, byte(len(places)))
		for _, place := range places {
			b = append(b, byte(place+1))
		}
	}
	return b
}

// limitBytes is the size of a packed limit.
const limitBytes = 49

// kindOf returns the kind of a packed limit.
func kindOf(packed string) engine.Kind {
	switch packed[0] {
	case 1:
		return engine.KindFixed
	case 2:
		return engine.KindFixedFromFirst
	case 3:
		return engine.KindBucket
	}
	if packed[limitBytes-1] == 1 { // a hold
		return engine.KindConcurrency
	}
	return engine.KindRolling
}

// numbers returns the kind of a limit for the script, and its three further numbers.
func numbers(l *engine.Limit, around int64) (kind byte, three [3]int64) {
	switch {
	case l.Kind == engine.KindBucket:
		return 3, [3]int64{l.Refill.Micros, l.Refill.Rest, l.Refill.Per}
	case l.Period != nil:
		start, end := l.Period.WindowAt(around)
		return 1, [3]int64{start, end}
	case l.Kind == engine.KindFixed:
		return 1, three
	case l.Kind == engine.KindFixedFromFirst:
		return 2, three
	case l.Kind == engine.KindConcurrency:
		return 0, [3]int64{0, 0, 1}
	}
	return 0, [3]int64{l.Cell}
}

// compose returns the keys and arguments of requests for one call.
func compose(answers []answer) (keys, args []string) {
	numbers := map[*plan]byte{}
	args = append(make([]string, 0, 4), "")
	keys = make([]string, 0, 2*len(answers))
	head := make([]byte, 0, len(answers)*(1+argBytes))
	var last *plan
	var waits []byte
	number := byte(0)
	for i := range answers {
		req := &answers[i].request
		if req.maxWait > 0 {
			waits = append6(binary.BigEndian.AppendUint16(waits, uint16(len(keys))), req.maxWait)
		}
		if req.several == nil {
			keys = append(keys, req.joined)
		} else {
			keys = append(keys, req.several...)
		}
		if req.operation != "" {
			keys = append(keys, req.operation)
		}
		if req.plan != last {
			known := false
			if number, known = numbers[req.plan]; !known {
				args = append(args, req.plan.text)
				number = byte(len(args) - 1)
				numbers[req.plan] = number
			}
			last = req.plan
		}
		head = append(append(head, number), req.arg[:]...)
	}
	if args[0] = string(head); waits != nil {
		args = append(args, string(waits))
	}
	return slices.Clip(keys), args
}

func append7(b []byte, v int64) []byte {
	return append6(append(b, byte(v>>48)), v)
}

func append6(b []byte, v int64) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(v>>32))
	return binary.BigEndian.AppendUint32(b, uint32(v))
}
