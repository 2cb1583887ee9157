package weirhttp

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/fields"
	"github.com/weirlimit/weir/internal/problemdoc"
)

// Outcome is the outcome of a request: the source of the header fields and of the problem
// document.
type Outcome struct{ weir.Outcome }

// Why returns the decision and the next step in one English sentence. Values of the key
// are escaped and shortened.
func (o *Outcome) Why() string { return answer.Of(&o.Outcome).Why(nil) }

type contextKey struct{}

// FromContext returns the outcome of the request that a handler behind Middleware
// serves. It holds Decision.Granted, for policies of mode Partial, and Decision.At, for
// refunds. Behind several Middlewares it is the innermost one's.
func FromContext(ctx context.Context) (*Outcome, bool) {
	o, ok := ctx.Value(contextKey{}).(*Outcome)
	return o, ok
}

// quotaExceeded is the problem type of a denial, registered by
// draft-ietf-httpapi-ratelimit-headers-10.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// WriteProblem answers a denial with a problem document (RFC 9457). Its members are
// type, title, status, detail (the sentence of Why), violated-policies and
// retry_after_ms (-1 = never). The answer must not be cached. Call WriteHeaders first.
func (o *Outcome) WriteProblem(w http.ResponseWriter, status int) {
	j := new(answer.JSON)
	j.Object("")
	problemdoc.WriteMembers(j, quotaExceeded, "Quota exceeded", status, o.Why())
	j.Array("violated-policies")
	if !o.Decision.Allowed {
		fields.Each(&o.Outcome, func(name string, _ int64, _ time.Duration) { j.String("", name) })
	}
	j.EndArray()
	j.Int("retry_after_ms", answer.Millis(o.Decision.RetryAfter))
	problemdoc.Send(w, status, j)
}

// WriteHeaders writes Retry-After, for a denial that waiting can help, and RateLimit and
// RateLimit-Policy as in draft-ietf-httpapi-ratelimit-headers-10. Lines of these two that an
// outer Middleware wrote stay. A denial replaces the lines of RateLimit by the limits that
// denied it, so that no t exceeds Retry-After.
//
// A shadow writes nothing, because a client that sees a limit would keep to it.
func (o *Outcome) WriteHeaders(h http.Header) { o.writeHeaders(h, nil) }

// writeHeaders is WriteHeaders with a cache for the RateLimit-Policy field, which may be nil.
func (o *Outcome) writeHeaders(h http.Header, cached *policyField) {
	if o.Shadow {
		return
	}
	if seconds, ok := fields.RetryAfter(&o.Outcome); ok {
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	h.Add("RateLimit-Policy", cached.of(o.Rules))
	if !o.Decision.Allowed {
		h.Del("RateLimit")
	}
	if v := fields.RateLimit(&o.Outcome); v != "" {
		h.Add("RateLimit", v)
	}
}

// policyField keeps the RateLimit-Policy field of the rules that decided last. Plans and reloads
// change the rules.
type policyField struct{ last atomic.Pointer[fieldOfRules] }

type fieldOfRules struct {
	rules *engine.Compiled
	text  string
}

// of returns the field of some rules. A nil policyField keeps nothing.
func (p *policyField) of(rules *engine.Compiled) string {
	if p == nil {
		return fields.Policy(rules)
	}
	last := p.last.Load()
	if last == nil || last.rules != rules {
		last = &fieldOfRules{rules, fields.Policy(rules)}
		p.last.Store(last)
	}
	return last.text
}
