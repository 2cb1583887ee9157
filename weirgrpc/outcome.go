package weirgrpc

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// Outcome is one decision together with what was asked and what the limits hold.
type Outcome struct {
	Plan     *weir.Plan
	Key      weir.Key
	N        int64 // units asked for
	Decision weir.Decision
	States   []weir.LimitState // in the plan's order; nil when nobody looked
}

// Why says in one English sentence what was decided and what to do about it.
func (o *Outcome) Why() string { return o.answer().Why() }

func (o *Outcome) answer() *answer.Answer {
	return &answer.Answer{Plan: o.Plan, Key: o.Key, N: o.N, Decision: o.Decision, States: o.States}
}

// Status is RESOURCE_EXHAUSTED with the sentence of Why, and as details a RetryInfo,
// unless no waiting helps, and a QuotaFailure.
func (o *Outcome) Status() *status.Status {
	s := status.New(codes.ResourceExhausted, o.Why())
	details := []protoadapt.MessageV1{o.quotaFailure()}
	if d := o.Decision.RetryAfter; d != weir.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	}
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s // it fails only for a status of OK
	}
	return detailed
}

// quotaFailure names every limit that stands in the way.
func (o *Outcome) quotaFailure() *errdetails.QuotaFailure {
	f := &errdetails.QuotaFailure{}
	for i, s := range o.answer().Known() {
		if s.Remaining >= o.Plan.Limits()[i].Units(o.N) && s.MinIntervalAfter <= 0 {
			continue
		}
		f.Violations = append(f.Violations, o.violation(i, s))
	}
	if len(f.Violations) == 0 { // nobody looked at the states
		f.Violations = append(f.Violations, &errdetails.QuotaFailure_Violation{
			Subject: "all callers", Description: o.Why(), QuotaMetric: o.Plan.Name(), QuotaId: o.Decision.Limit})
	}
	return f
}

func (o *Outcome) violation(i int, s *weir.LimitState) *errdetails.QuotaFailure_Violation {
	v := &errdetails.QuotaFailure_Violation{
		QuotaMetric: o.Plan.Name(),
		QuotaId:     s.Name,
		QuotaValue:  s.Max,
		Description: fmt.Sprintf("at most %d in %s, and %d are used", s.Max, answer.Exactly(s.Window), s.Used),
	}
	if s.MinIntervalAfter > 0 {
		v.Description += fmt.Sprintf("; grants must be %s apart", answer.Exactly(s.MinInterval))
	}
	var who []string
	for _, dim := range o.Plan.Limits()[i].By {
		name, value := o.Plan.Dimensions()[dim], shown(o.Key.Value(dim))
		if v.QuotaDimensions == nil {
			v.QuotaDimensions = map[string]string{}
		}
		v.QuotaDimensions[name] = value
		who = append(who, name+":"+value)
	}
	if v.Subject = strings.Join(who, ","); who == nil {
		v.Subject = "all callers"
	}
	return v
}

// shown is a value of a key as a trailer can carry it: UTF-8, and not long.
func shown(value string) string {
	const most = 64
	if len(value) > most {
		value = value[:most] + "…"
	}
	return strings.ToValidUTF8(value, "\uFFFD")
}

// pushback is the value of the trailer grpc-retry-pushback-ms: milliseconds, rounded
// up, or -1 for a call that must not be made again.
func (o *Outcome) pushback() string {
	return strconv.FormatInt(answer.Millis(o.Decision.RetryAfter), 10)
}

type contextKey struct{}

// FromContext returns the outcome of the call that a handler is serving: of a
// stream, of its beginning. A handler behind a policy of mode Partial needs it to
// learn Decision.Granted, one that gives units back to learn Decision.At. Behind
// several interceptors it is the innermost one's.
func FromContext(ctx context.Context) (*Outcome, bool) {
	o, ok := ctx.Value(contextKey{}).(*Outcome)
	return o, ok
}
