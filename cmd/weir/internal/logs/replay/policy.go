package replay

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
)

// tracePolicy is a policy with its summary.
type tracePolicy struct {
	rule    *enforce.Rule
	summary PolicySummary
}

// ops maps the first three ops to those of an engine.
var ops = [...]weir.Op{Check: weir.OpAttempt, Peek: weir.OpPeek, Record: weir.OpRecord}

// run executes a checked line and stores the result in res.
func (t *tracePolicy) run(ctx context.Context, line *Line, target enforce.Target, res *result) (err error) {
	at := time.UnixMicro(line.At)
	req := enforce.Request{Target: target, N: line.N, At: at, ID: line.ID}
	if int(line.Op) < len(ops) {
		req.Op = ops[line.Op]
		return t.decideRequest(ctx, &req, res)
	}
	now := t.rule.Limiter(&target, at).At(at)
	switch line.Op {
	case Refund:
		var d weir.Decision
		d, err = now.Decide(ctx, target.Key, weir.Request{Op: weir.OpRefund, From: time.UnixMicro(line.GrantedAt), N: line.N, ID: line.ID})
		res.units = d.Granted
	case Reset:
		err = t.rule.Reset(ctx, target.Key)
	case Count:
		res.units, err = now.Count(ctx, target.Key, line.Limit, time.Duration(line.Last)*time.Microsecond)
	}
	if err != nil {
		return err
	}
	req.Op, req.N, req.ID = weir.OpPeek, 0, ""
	return t.decideRequest(ctx, &req, res)
}

// decideRequest decides a request. If a shadow cannot decide, the replay ends, because
// its purpose is the decisions.
func (t *tracePolicy) decideRequest(ctx context.Context, req *enforce.Request, res *result) error {
	o, err := t.rule.Decide(ctx, req)
	if err == nil {
		err = o.Err
	}
	if err == nil {
		res.d, res.applied = o.Decision, answer.Applied(o.Applied)
	}
	return err
}

// target returns the key of a line and its plan.
func (t *tracePolicy) target(line *Line) (enforce.Target, error) {
	return t.rule.Target(enforce.Lookup{Count: len(line.Key), Value: line.value, Map: line.named})
}

// value returns the value of a dimension.
func (l *Line) value(name string) (string, bool) {
	for i := range l.Key {
		if l.Key[i].Name == name {
			return l.Key[i].Value, true
		}
	}
	return "", false
}

// named returns the key as a map.
func (l *Line) named() map[string]string {
	values := make(map[string]string, len(l.Key))
	for _, given := range l.Key {
		values[given.Name] = given.Value
	}
	return values
}
