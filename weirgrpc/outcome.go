package weirgrpc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/shorten"
)

// Outcome is the outcome of a call.
type Outcome struct{ weir.Outcome }

// Why returns one English sentence with the decision and the next step.
func (o *Outcome) Why() string { return o.answer().Why(nil) }

func (o *Outcome) answer() *answer.Answer { return answer.Of(&o.Outcome) }

// Status returns RESOURCE_EXHAUSTED with the sentence of Why. Its details are a
// QuotaFailure and, unless waiting does not help, a RetryInfo.
func (o *Outcome) Status() *status.Status {
	s := status.New(codes.ResourceExhausted, o.Why())
	details := []protoadapt.MessageV1{o.quotaFailure()}
	if d := o.Decision.RetryAfter; d != weir.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	}
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s // impossible: it fails only for OK
	}
	return detailed
}

// quotaFailure names every limit that denied the call.
func (o *Outcome) quotaFailure() *errdetails.QuotaFailure {
	f := &errdetails.QuotaFailure{}
	for i, s := range o.answer().Known() {
		if s.Remaining < o.Rules.Limits[i].Units(o.N) || s.MinIntervalAfter > 0 {
			f.Violations = append(f.Violations, o.violation(i, s))
		}
	}
	if len(f.Violations) == 0 { // the states are unknown
		f.Violations = append(f.Violations, &errdetails.QuotaFailure_Violation{
			Subject: "all callers", Description: o.Why(), QuotaMetric: o.Rules.Name, QuotaId: o.Decision.Limit})
	}
	return f
}

func (o *Outcome) violation(i int, s *weir.LimitState) *errdetails.QuotaFailure_Violation {
	l := &o.Rules.Limits[i]
	v := &errdetails.QuotaFailure_Violation{
		QuotaMetric:     o.Rules.Name,
		QuotaId:         s.Name,
		QuotaValue:      cmp.Or(s.Burst, s.Max),
		QuotaDimensions: map[string]string{},
		Description:     answer.Bound(l, s),
	}
	if s.MinIntervalAfter > 0 {
		v.Description += fmt.Sprintf("; grants must be %s apart", answer.Exactly(s.MinInterval))
	}
	var subject []string
	for dim, name := range o.Rules.Dimensions { // in the order of the policy
		if !slices.Contains(l.By, dim) {
			continue
		}
		value := strings.ToValidUTF8(shorten.Text(o.Key.Value(dim)), "\uFFFD") // fit for a trailer
		v.QuotaDimensions[name] = value
		subject = append(subject, name+":"+value)
	}
	v.Subject = cmp.Or(strings.Join(subject, ","), "all callers")
	return v
}

type contextKey struct{}

// FromContext returns the outcome of the call that a handler serves; for a stream, that
// of its beginning. A handler needs Decision.Granted in the mode Partial, and Decision.At
// for a refund. With several interceptors it is the outcome of the innermost one.
func FromContext(ctx context.Context) (*Outcome, bool) {
	o, ok := ctx.Value(contextKey{}).(*Outcome)
	return o, ok
}
