package envoy

import (
	"context"
	"fmt"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
)

const benchConfig = `
domain: bench
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}
  - {key: route, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: hot, rate_limit: {unit: hour, requests_per_unit: 1}}
`

// BenchmarkAnswer measures the service without gRPC, from the bytes of a request to those of
// its answer.
func BenchmarkAnswer(b *testing.B) {
	for _, c := range []struct {
		name        string
		descriptors []string
	}{
		{"one", []string{"user=%d"}},
		{"denied", []string{"hot=1"}},
		{"two", []string{"user=%d", "route=x"}},
		{"none", []string{"none=1"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newService(Options{Engine: weir.NewMemory(), Top: func() *topkeys.Sketch { return topkeys.New(512, topkeys.Shown) }})
			if err := s.Load(parse(b, benchConfig), nil); err != nil {
				b.Fatal(err)
			}
			var wired [][]byte
			for i := range 1000 {
				r := &pb.RateLimitRequest{Domain: "bench"}
				for _, d := range c.descriptors {
					if c.name != "denied" && d[0] == 'u' {
						d = fmt.Sprintf(d, i)
					}
					r.Descriptors = append(r.Descriptors, descriptor(b, d))
				}
				w, err := proto.Marshal(r)
				if err != nil {
					b.Fatal(err)
				}
				wired = append(wired, w)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r := new(pb.RateLimitRequest)
				if err := proto.Unmarshal(wired[i%len(wired)], r); err != nil {
					b.Fatal(err)
				}
				a, err := s.answer(context.Background(), r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := proto.Marshal(a); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
