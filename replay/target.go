package replay

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
)

// target is a policy that lines can name.
type target struct {
	rule    *enforce.Rule
	summary PolicySummary
}

// ops are what an engine is asked for those lines that ask it for a decision.
var ops = [...]weir.Op{Check: weir.OpAttempt, Peek: weir.OpPeek, Record: weir.OpRecord}

// do decides a checked line, and puts what it came to into res.
func (t *target) do(ctx context.Context, line *Line, whose enforce.Target, res *result) (err error) {
	ask := enforce.Request{Target: whose, N: line.N, At: line.At, ID: line.ID}
	if int(line.Op) < len(ops) {
		ask.Op = ops[line.Op]
		return t.decide(ctx, &ask, res)
	}
	limiter := t.rule.Limiter(&whose, line.At)
	now := limiter.At(time.UnixMicro(line.At))
	switch line.Op {
	case Refund:
		res.units, err = refund(ctx, now, line, whose.Key)
	case Reset:
		err = t.rule.Reset(ctx, whose.Key)
	case Count:
		res.units, err = now.Count(ctx, whose.Key, line.Limit, time.Duration(line.Last)*time.Microsecond)
	}
	if err != nil {
		return err
	}
	ask.Op, ask.N, ask.ID = weir.OpPeek, 0, ""
	return t.decide(ctx, &ask, res)
}

// refund takes back what a line names; once for its id, if it has one.
func refund(ctx context.Context, l weir.LimiterAt, line *Line, key weir.Key) (int64, error) {
	if line.ID == "" {
		return l.Refund(ctx, key, time.UnixMicro(line.GrantedAt), line.N)
	}
	return l.RefundOnce(ctx, key, time.UnixMicro(line.GrantedAt), line.N, line.ID)
}

// decide asks the policy. Where it is a shadow and cannot decide, the replay ends
// all the same: it is there to learn what would be decided.
func (t *target) decide(ctx context.Context, ask *enforce.Request, res *result) error {
	o, err := t.rule.Decide(ctx, ask)
	if err == nil {
		err = o.Err
	}
	if err == nil {
		res.d, res.applied = o.Decision, answer.Applied(o.Applied)
	}
	return err
}

// whose is the key of a line, and the plan that it names.
func (t *target) whose(line *Line) (enforce.Target, error) {
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

// named is the key as a map.
func (l *Line) named() map[string]string {
	values := make(map[string]string, len(l.Key))
	for _, given := range l.Key {
		values[given.Name] = given.Value
	}
	return values
}
