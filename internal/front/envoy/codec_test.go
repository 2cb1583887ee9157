package envoy

import (
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
)

// FuzzRead: what is read the usual way is what the library reads, and where the
// library finds a fault, so do we; a message that is used again holds nothing of the
// one before.
func FuzzRead(f *testing.F) {
	for _, r := range []*pb.RateLimitRequest{
		{},
		{Domain: "d", HitsAddend: 7, Descriptors: descriptors{{Entries: entryList{{Key: "k", Value: "v"}, {Key: "l"}}}, {Entries: entryList{{Key: "ä"}}, IsNegativeHits: true, HitsAddend: wrapperspb.UInt64(1 << 60)}}},
		{Domain: "d", Descriptors: descriptors{{Entries: entryList{{Key: "k"}}, HitsAddend: wrapperspb.UInt64(0)}}},
		{Domain: "d", Descriptors: descriptors{{Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}}}},
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
		f.Add(append(b, b...), []byte(nil))
	}
	f.Add([]byte("\x0a\x01\xff"), []byte("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"))
	f.Add([]byte("\x12\x04\x0a\x02\x08\x00"), []byte("\x12\x02\x1a\x00"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		r := new(request)
		for _, b := range [][]byte{first, second, first} {
			var want pb.RateLimitRequest
			wantErr := proto.Unmarshal(b, &want)
			err := r.read(b)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%q: %v, the library: %v", b, err, wantErr)
			}
			if err == nil && !proto.Equal(&r.RateLimitRequest, &want) {
				t.Fatalf("%q:\n got %v\nwant %v", b, &r.RateLimitRequest, &want)
			}
			r.reset()
		}
	})
}

// The usual requests are read the usual way.
func TestReadUsual(t *testing.T) {
	p := &proxy{t: t, domain: "d"}
	for _, d := range [][]string{{"k=v"}, {"k=v,l=w", "m=x hits:0"}, {"k=v refund hits:3"}} {
		b, err := proto.Marshal(p.request(d...))
		if err != nil {
			t.Fatal(err)
		}
		if r := new(request); !r.readUsual(b) {
			t.Errorf("%v is not read", d)
		}
	}
}

// An answer that is written at once is the one that the library writes.
func TestWrite(t *testing.T) {
	c := newClock(weir.NewMemory())
	long := make([]byte, 300)
	for i := range long {
		long[i] = 'x'
	}
	s := New(Options{Engine: c})
	if err := s.Load(parse(t, `
domain: write
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 2, name: `+string(long)+`}}
  - {key: b, rate_limit: {unit: hour, requests_per_unit: 4294967295, unit_multiplier: 300}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: soft, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
`), policies(t, c)); err != nil {
		t.Fatal(err)
	}
	for i, each := range []struct {
		domain      string
		descriptors []string
	}{
		{"write", []string{"a=1"}}, {"write", []string{"a=1", "b=1", "watched=x", "soft=x", "free=x", "none=x"}},
		{"write", []string{"a=1"}}, {"write", []string{"soft=x"}}, {"write", []string{"b=1 hits:3000000000"}},
		{"write", []string{"a=1 refund"}}, {"write", []string{"a=1 limit:3/SECOND*7"}}, {"nobody", []string{"a=1"}},
		{"push", []string{"teacher=1"}}, {"push", []string{"teacher=1"}}, {"slack", []string{"category=x"}}, {"all", []string{"x=y hits:3"}},
	} {
		c.pass(1234567 * time.Microsecond)
		p := &proxy{t: t, domain: each.domain}
		r := p.request(each.descriptors...)
		w := s.newCall(r)
		if err := s.run(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		want := s.answer(w)
		var got pb.RateLimitResponse
		if err := proto.Unmarshal(s.appendAnswer(nil, w), &got); err != nil || !proto.Equal(&got, want) {
			t.Errorf("%d %v: %v\n got %v\nwant %v", i, each, err, &got, want)
		}
		s.release(w)
	}
}
