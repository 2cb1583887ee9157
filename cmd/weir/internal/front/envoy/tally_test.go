package envoy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// counted returns the rules of the client's domain with granted hits, and the number of
// hits.
func (p *proxy) counted() (all []string) {
	p.service.EachRule(func(domain, rule string, h *Hits) {
		if domain == p.domain && h.Granted.Load() > 0 {
			all = append(all, fmt.Sprintf("%s %d", rule, h.Granted.Load()))
		}
	})
	slices.Sort(all)
	return all
}

// denied returns the denied keys by rule, with their dimensions.
func (p *proxy) denied() (all []string) {
	p.service.EachRuleDenials(func(domain, rule string, names []string, top *topkeys.Sketch) {
		for _, e := range top.Top(10, time.Now()).Top {
			all = append(all, fmt.Sprint(rule, " ", names, e.Values, " ", e.Count))
		}
	})
	slices.Sort(all)
	return all
}

// hits returns the sums of the metrics of the rules of that name.
func (p *proxy) hits(of string) string {
	var n [5]int64
	p.service.EachRule(func(_, rule string, h *Hits) {
		for i, count := range []*atomic.Int64{&h.Granted, &h.Denied, &h.Shadowed, &h.Near, &h.Refunded} {
			if rule == of {
				n[i] += count.Load()
			}
		}
	})
	return fmt.Sprintf("%d granted, %d denied, %d shadowed, %d near, %d refunded", n[0], n[1], n[2], n[3], n[4])
}

// A reload keeps the counts, also those of rules with equal spelling.
func TestCountsOutliveAReload(t *testing.T) {
	const config = `
domain: bounds
descriptors:
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 60}}
  - {key: a_b, value: c, rate_limit: {unit: minute, requests_per_unit: 60}}
`
	p := connect(t, weir.NewMemory(), parse(t, config))
	p.ask("a=b_c")
	p.ask("a_b=c", "x=1 limit:2/HOUR")
	must.Do(t, p.service.Load(parse(t, config), nil))
	if got, want := p.counted(), []string{"(override) 1", "a_b_c 1", "a_b_c 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if hits := p.hits("a_b_c"); !strings.HasPrefix(hits, "2 granted,") {
		t.Errorf("%s of two rules with equal spelling, want 2", hits)
	}
}

// Names in metrics have no control characters.
func TestMetricNamesArePrintable(t *testing.T) {
	p := connect(t, weir.NewMemory(), parse(t, `
domain: "d\e[31m"
descriptors:
  - {key: "l\u202e", rate_limit: {unit: minute, requests_per_unit: 60}}
`))
	p.ask("l\u202e=1")
	var all []string
	p.service.EachRule(func(domain, rule string, h *Hits) {
		if h.Granted.Load() > 0 {
			all = append(all, domain+" "+rule)
		}
	})
	slices.Sort(all)
	if want := []string{`d\u001b[31m l\u202e`}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}

type told []string

func (t *told) Span(parent string, s observe.Span) { *t = append(*t, parent+" "+s.Outcome.String()) }

// TestRequestsJoinTheirTrace: a request joins the trace in its metadata. With several
// trace headers it joins none.
func TestRequestsJoinTheirTrace(t *testing.T) {
	tracer := new(told)
	s := newService(Options{Tracer: tracer})
	r := &pb.RateLimitRequest{Domain: "any", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}}}
	for _, sent := range [][]string{nil, {"traceparent", "one"}, {"traceparent", "one", "traceparent", "two"}} {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(sent...))
		if _, err := s.answer(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if len(*tracer) != 3 || (*tracer)[0] != " allowed" || (*tracer)[1] != "one allowed" || (*tracer)[2] != " allowed" {
		t.Errorf("%q", *tracer)
	}
}

// fields returns header fields in one line.
func fields(h []*core.HeaderValue) string {
	var all []string
	for _, v := range h {
		all = append(all, v.Key+"="+v.Value)
	}
	return strings.Join(all, " ")
}

// Without the options an answer has no header fields and no metadata.
func TestPlainAnswerHasNoHeadersOrMetadata(t *testing.T) {
	p := connect(t, weir.NewMemory(), parse(t, "domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 10, name: per-a}}]"))
	a := p.ask("a=1")
	if a.ResponseHeadersToAdd != nil || a.RequestHeadersToAdd != nil || a.DynamicMetadata != nil || a.RawBody != nil || a.Quota != nil {
		t.Errorf("got %v", a)
	}
	if l := a.Statuses[0].CurrentLimit; l.Name != "per-a" || l.UnitMultiplier != nil {
		t.Errorf("current_limit %v, want the name per-a and no multiplier", l)
	}
}
