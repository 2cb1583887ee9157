package envoy

import (
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
)

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
		s := New(Options{Engine: c})
		if err := s.Load(parse(t, fuzzConfig), nil); err != nil {
			t.Fatal(err)
		}
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
