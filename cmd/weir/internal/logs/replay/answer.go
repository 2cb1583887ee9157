package replay

import (
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// result is the result of one line.
type result struct {
	op      Op
	at      int64 // the instant of the line, if hasAt
	hasAt   bool
	d       weir.Decision
	applied answer.Applied
	units   int64  // counted by Count, refunded by Refund
	problem string // not "": the line is bad and changed nothing
}

// appendTo appends the answer, a line of JSON. The order of fields is fixed and there
// is no white space, so equal decisions are equal bytes.
func (r *result) appendTo(out []byte) []byte {
	if r.problem != "" {
		return r.appendProblem(out)
	}
	out = strconv.AppendInt(append(out, `{"at_us":`...), r.d.At.UnixMicro(), 10)
	out = strconv.AppendBool(append(out, `,"allowed":`...), r.d.Allowed)
	out = strconv.AppendInt(append(out, `,"granted":`...), r.d.Granted, 10)
	out = strconv.AppendInt(append(out, `,"remaining":`...), r.d.Remaining, 10)
	out = strconv.AppendInt(append(out, `,"retry_after_us":`...), answer.Micros(r.d.RetryAfter), 10)
	out = strconv.AppendInt(append(out, `,"reset_after_us":`...), answer.Micros(r.d.ResetAfter), 10)
	out = answer.AppendString(append(out, `,"limit":`...), r.d.Limit)
	switch r.op {
	case Count:
		out = strconv.AppendInt(append(out, `,"count":`...), r.units, 10)
	case Refund:
		out = strconv.AppendInt(append(out, `,"refunded":`...), r.units, 10)
	}
	out = r.applied.Append(out)
	if r.d.Replayed {
		out = append(out, `,"replayed":true`...)
	}
	return append(out, "}\n"...)
}

// decided returns the decision before shadow mode.
func (r *result) decided() *weir.Decision {
	if r.applied.Shadow {
		return &r.applied.Would
	}
	return &r.d
}

func (r *result) appendProblem(out []byte) []byte {
	out = append(out, '{')
	if r.hasAt {
		out = strconv.AppendInt(append(out, `"at_us":`...), r.at, 10)
		out = append(out, ',')
	}
	return append(answer.AppendString(append(out, `"error":`...), r.problem), "}\n"...)
}
