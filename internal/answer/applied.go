package answer

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir"
)

// Applied is what of a policy file made a decision, besides the policy's limits.
// The zero Applied is nothing of the kind.
type Applied struct {
	Plan     string        // the name of the plan whose numbers applied
	Override string        // why other numbers applied: the reason of the override
	Until    time.Time     // from when on the override will not; zero = it stays
	Shadow   bool          // decided and not enforced
	Would    weir.Decision // with Shadow: what was decided
	Blocked  time.Time     // until when a block refuses the key; zero = none does
}

// WhyOf is Why, which also says that a decision was not enforced.
func (a *Answer) WhyOf(by *Applied) string {
	would := *a
	if by != nil {
		would.Blocked = by.Blocked
	}
	if by == nil || !by.Shadow {
		return would.Why()
	}
	would.Decision = by.Would
	verdict := "denied"
	if by.Would.Allowed {
		verdict = "allowed"
		if by.Would.Granted < a.N {
			verdict = "allowed in part"
		}
	}
	return "shadow, not enforced: would be " + verdict + ": " + would.Why()
}

// Append appends the members that tell of it, each behind a comma; nothing for the
// zero Applied.
func (by *Applied) Append(b []byte) []byte {
	if by.Plan != "" {
		b = AppendString(append(b, `,"plan":`...), by.Plan)
	}
	if by.Override != "" {
		b = AppendString(append(b, `,"override":{"why":`...), by.Override)
		if !by.Until.IsZero() {
			b = by.Until.UTC().AppendFormat(append(b, `,"until":"`...), time.RFC3339)
			b = append(b, '"')
		}
		b = append(b, '}')
	}
	if !by.Blocked.IsZero() {
		b = by.Blocked.UTC().AppendFormat(append(b, `,"blocked_until":"`...), "2006-01-02T15:04:05.000000Z")
		b = append(b, '"')
	}
	if by.Shadow {
		b = append(b, `,"shadow":true,"would":`...)
		b = appendWould(b, &by.Would)
	}
	return b
}

// appendWould appends what a shadow policy decided as one JSON object.
func appendWould(b []byte, d *weir.Decision) []byte {
	b = strconv.AppendBool(append(b, `{"allowed":`...), d.Allowed)
	b = appendInt(b, `,"granted":`, d.Granted)
	b = appendInt(b, `,"retry_after_us":`, Micros(d.RetryAfter))
	b = AppendString(append(b, `,"limit":`...), d.Limit)
	return append(b, '}')
}
