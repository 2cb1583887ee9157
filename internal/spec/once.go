package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
)

// operation is a decision with an idempotency key, known before the instant until.
type operation struct {
	op     engine.Op
	n      int64
	from   int64 // refund: the instant of the entry
	result engine.Result
	until  int64
	opens  bool         // an attempt with a time to live
	grant  *reservation // that it opened, or nil
}

// once decides an operation with an id at an instant: the first time by the rules, then by
// repeating the answer while the operation is known (R15). That time begins at the instant of
// the decision, which R2 may have moved ahead.
func (e *Engine) once(c *engine.Call, at int64) error {
	name, o := operationName(c), operation{op: c.Op, n: c.N, opens: c.TTL > 0}
	if c.Op == engine.Refund {
		o.from = c.From
	}
	if was, ok := e.done[name]; ok && at < was.until {
		if was.op != o.op || was.n != o.n || was.from != o.from || was.opens != o.opens {
			return engine.Input("id", "it was used for other units, or another op")
		}
		c.Result = was.result
		c.Result.Replayed = true
		c.Result.StartAfter = was.startsAfter(at)
		was.grant.describe(c)
		return nil
	}
	changed, err := e.decide(c, at)
	if err == nil && changed {
		o.result, o.until = c.Result, startOf(c.Result)+remembered(c.Rules)
		if o.opens && c.Result.Granted > 0 {
			o.grant = opened(c)
			o.until = o.grant.kept(startOf(c.Result))
			o.grant.describe(c)
		}
		c.Rules.Explain(&o.result)
		e.done[name] = o
	}
	return err
}

// startOf is the instant at which the use of granted units may begin (R18).
func startOf(r engine.Result) int64 { return r.At.Add(r.StartAfter).UnixMicro() }

// startsAfter is the rest of the operation's StartAfter at an instant (R18).
func (o operation) startsAfter(at int64) time.Duration {
	return min(o.result.StartAfter, max(0, micros(startOf(o.result)-at)))
}

// remembered is the number of microseconds for which an operation is known: as long as it
// can count in some limit, and at least a minute.
func remembered(p *engine.Compiled) int64 {
	longest := int64(60 * second)
	for _, limit := range p.Limits {
		longest = max(longest, limit.Keep())
	}
	return longest
}

// operationName names the operation: policy, the key's values by the names of their
// dimensions in alphabetical order, and the id.
func operationName(c *engine.Call) string {
	var parts []string
	for i, dim := range c.Rules.Dimensions {
		parts = append(parts, fmt.Sprintf("%q=%q", dim, c.Key.Value(i)))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %s %q", c.Rules.Name, strings.Join(parts, " "), c.ID)
}
