package replay

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// tracePolicy is a policy with its summary.
type tracePolicy struct {
	rule    *enforce.Rule
	summary PolicySummary
}

// ops maps ops to those of an engine.
var ops = [...]weir.Op{Check: weir.OpAttempt, Peek: weir.OpPeek, Record: weir.OpRecord, Refund: weir.OpRefund, Reset: engine.Reset, Count: engine.Count}

// run executes a checked line and stores the result in res.
func (t *tracePolicy) run(ctx context.Context, line *Line, target enforce.Target, res *result) error {
	at := time.UnixMicro(line.At)
	req := enforce.Request{Target: target, Op: ops[line.Op], N: line.N, At: at, ID: line.ID,
		From: time.UnixMicro(line.GrantedAt), Limit: line.Limit, Last: time.Duration(line.Last) * time.Microsecond}
	if line.Op <= Record {
		return t.decideRequest(ctx, &req, res)
	}
	o, err := t.rule.Decide(ctx, &req)
	if err != nil {
		return err
	}
	res.units = o.Granted
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
		res.d, res.applied = o.Decision, o.Applied
	}
	return err
}
