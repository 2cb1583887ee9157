package envoy

import (
	"context"
	"slices"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// counting counts the calls of an engine.
type counting struct {
	engine.Engine
	calls int
}

func (c *counting) Do(ctx context.Context, calls []engine.Call) {
	c.calls += len(calls)
	c.Engine.Do(ctx, calls)
}

type (
	limitOverride = common.RateLimitDescriptor_RateLimitOverride
	descriptors   = []*common.RateLimitDescriptor
	entryList     = []*common.RateLimitDescriptor_Entry
)

// Bad input gets the protocol's error, which names the field, and reaches no engine
// (R14).
func TestBadInputReachesNoEngine(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	p := connect(t, e, parse(t, hitsConfig))
	good := entryList{{Key: "a", Value: "1"}}
	overridden := func(o *limitOverride) *pb.RateLimitRequest {
		// After a good descriptor, which must not be charged.
		return &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: good}, {Entries: good, Limit: o}}}
	}
	for _, c := range []struct {
		name  string
		r     *pb.RateLimitRequest
		words []string
	}{
		{"nothing", &pb.RateLimitRequest{}, []string{"domain", "rate limit domain must not be empty"}},
		{"no domain", &pb.RateLimitRequest{Descriptors: descriptors{{Entries: good}}}, []string{"rate limit domain must not be empty"}},
		{"no descriptors", &pb.RateLimitRequest{Domain: "hits"}, []string{"descriptors", "rate limit descriptor list must not be empty"}},
		{"257 descriptors", &pb.RateLimitRequest{Domain: "hits", Descriptors: slices.Repeat(descriptors{{Entries: good}}, 257)}, []string{"descriptors: 257", "at most 256"}},
		{"no entries", &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: good}, {}}}, []string{"descriptors[1].entries must not be empty"}},
		{"no key", &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: entryList{{Key: "a"}, {Value: "v"}}}}}, []string{"descriptors[0].entries[1].key must not be empty"}},
		{"hits 2^51", &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: good, HitsAddend: wrapperspb.UInt64(1 << 51)}}}, []string{"descriptors[0].hits_addend", "2251799813685247"}},
		{"hits -1", &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: good, HitsAddend: wrapperspb.UInt64(1<<64 - 1)}}}, []string{"descriptors[0].hits_addend"}},
		{"refund 2^51", &pb.RateLimitRequest{Domain: "hits", Descriptors: descriptors{{Entries: good, IsNegativeHits: true, HitsAddend: wrapperspb.UInt64(1 << 51)}}}, []string{"hits_addend"}},
		{"no unit", overridden(&limitOverride{RequestsPerUnit: 1}), []string{"descriptors[1].limit.unit", "SECOND"}},
		{"unknown unit", overridden(&limitOverride{RequestsPerUnit: 1, Unit: 99}), []string{"limit.unit", "99"}},
		{"negative unit", overridden(&limitOverride{RequestsPerUnit: 1, Unit: -1}), []string{"limit.unit", "-1"}},
		{"a unit that wraps around", overridden(&limitOverride{RequestsPerUnit: 1, Unit: 257}), []string{"limit.unit", "257"}},
		{"0 units", overridden(&limitOverride{RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_SECOND, UnitMultiplier: wrapperspb.UInt32(0)}), []string{"descriptors[1].limit.unit_multiplier"}},
		{"too many units", overridden(&limitOverride{RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_YEAR, UnitMultiplier: wrapperspb.UInt32(2)}), []string{"limit.unit_multiplier", "400 days"}},
		{"units that overflow", overridden(&limitOverride{RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_YEAR, UnitMultiplier: wrapperspb.UInt32(1<<32 - 1)}), []string{"limit.unit_multiplier"}},
	} {
		a, err := p.send(c.r)
		if a != nil || status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, %v; want InvalidArgument", c.name, a, err)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(status.Convert(err).Message(), word) {
				t.Errorf("%s: %v; want it to contain %q", c.name, err, word)
			}
		}
	}
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
	p.wants("OK | OK 10/10 0s", "a=1 hits:0")
	if _, err := p.send(&pb.RateLimitRequest{Domain: "hits", Descriptors: slices.Repeat(descriptors{{Entries: good, HitsAddend: wrapperspb.UInt64(0)}}, 256)}); err != nil {
		t.Fatal(err)
	}
}

// A request of an unknown domain is always OK.
func TestUnknownDomainIsOK(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	p := connect(t, e, nil).in("nobody")
	p.wants("OK | OK | OK | OK", "a=1 hits:5", "a=1 limit:0/SECOND", "a=1 refund")
	if e.calls != 0 || p.service.Counts.UnknownDomains.Load() != 1 {
		t.Errorf("%d calls of the engine, %d requests counted", e.calls, p.service.Counts.UnknownDomains.Load())
	}
}

// Values of any length and with any bytes have separate histories.
func TestLongValuesHaveSeparateHistories(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, parse(t, `
domain: long
descriptors:
  - key: k
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors: [{key: l, rate_limit: {unit: minute, requests_per_unit: 2}}]
`))
		long := strings.Repeat("x", 5000)
		var all []string
		for _, v := range []string{"", "a", "1024" + strings.Repeat("y", 1020), "1025" + strings.Repeat("y", 1021), long, long + "x", "{a}:b", "ä\u0000"} {
			all = append(all, "k="+v)
		}
		all = append(all, "k=a,l=b", "k=ab,l=", "k=,l=ab", "k="+long+",l=b", "k="+long+"b,l=")
		for _, d := range all {
			p.wants("OK | OK 1/2 1m0s", d)
		}
		for _, d := range all {
			p.wants("OK | OK 0/2 1m0s", d)
		}
	})
}

const fuzzConfig = `
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: l, value: v, rate_limit: {unit: hour, requests_per_unit: 4294967295, unit_multiplier: 3}}
  - {key: soft, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 2}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
`

// FuzzRequest decides any message twice. It is rejected as bad input and charges nothing, or
// the answer has a status for each descriptor and can be encoded.
func FuzzRequest(f *testing.F) {
	for _, r := range []*pb.RateLimitRequest{
		{},
		{Domain: "d", HitsAddend: 7, Descriptors: descriptors{{Entries: entryList{{Key: "k", Value: "v"}, {Key: "l"}}}, {Entries: entryList{{Key: "ä"}}, IsNegativeHits: true, HitsAddend: wrapperspb.UInt64(1 << 60)}}},
		{Domain: "d", Descriptors: descriptors{{Entries: entryList{{Key: "k"}}, HitsAddend: wrapperspb.UInt64(0)}}},
		{Domain: "d", Descriptors: descriptors{{Entries: entryList{{Key: "k"}}}, {Entries: entryList{{Key: "soft"}}}, {Entries: entryList{{Key: "shadow"}}}, {Entries: entryList{{Key: "free"}}}}},
		{Domain: "d", Descriptors: descriptors{{Entries: entryList{{Key: "l", Value: "v"}}, HitsAddend: wrapperspb.UInt64(1 << 32)}, {Entries: entryList{{Key: "l", Value: "v"}}, IsNegativeHits: true}}},
		{Domain: "d", Descriptors: descriptors{{Entries: entryList{{Key: "x"}}, Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 2}}}},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
	}
	f.Add([]byte("\x0a\x01\xff"))                                 // text that is not UTF-8
	f.Add([]byte("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")) // a number above 64 bits
	f.Add([]byte("\x12\x04\x0a\x02\x08\x00"))                     // a number in place of a key
	f.Fuzz(func(t *testing.T, message []byte) {
		r := new(pb.RateLimitRequest)
		if proto.Unmarshal(message, r) != nil {
			return // gRPC rejects it
		}
		c := newClock(weir.NewMemory())
		s := newService(Options{Engine: c})
		must.Do(t, s.Load(parse(t, fuzzConfig), nil))
		peek := &pb.RateLimitRequest{Domain: "d"}
		for _, d := range r.Descriptors {
			peek.Descriptors = append(peek.Descriptors, &common.RateLimitDescriptor{Entries: d.Entries, HitsAddend: wrapperspb.UInt64(0)})
		}
		for range 2 {
			before, peekErr := s.answer(t.Context(), peek)
			a, err := s.answer(t.Context(), r)
			if err != nil {
				after, _ := s.answer(t.Context(), peek)
				if status.Code(err) != codes.InvalidArgument || peekErr == nil && !proto.Equal(before, after) {
					t.Fatalf("%v: %v; before\n%v, after\n%v", r, err, before, after)
				}
				return
			}
			if _, err := proto.Marshal(a); err != nil || len(a.Statuses) != len(r.Descriptors) || a.OverallCode == pb.RateLimitResponse_UNKNOWN {
				t.Fatalf("%v: answer %v, %v", r, a, err)
			}
			for i, st := range a.Statuses {
				if st.Code == pb.RateLimitResponse_UNKNOWN || (st.CurrentLimit == nil) != (st.DurationUntilReset == nil) || !(st.DurationUntilReset.AsDuration() >= 0) {
					t.Fatalf("%v: status %d is %v", r, i, st)
				}
			}
		}
	})
}
