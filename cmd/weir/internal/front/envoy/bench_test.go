package envoy

import (
	"context"
	"fmt"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/testkit/must"
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
			s := newService(Options{Engine: weir.NewMemory(), Top: func(int) *topkeys.Sketch { return topkeys.New(512, topkeys.Shown) }})
			must.Do(b, s.Load(parse(b, benchConfig), nil))
			var wired [][]byte
			for i := range 1000 {
				r := &pb.RateLimitRequest{Domain: "bench"}
				for _, d := range c.descriptors {
					if c.name != "denied" && d[0] == 'u' {
						d = fmt.Sprintf(d, i)
					}
					r.Descriptors = append(r.Descriptors, descriptor(b, d))
				}
				text, err := proto.Marshal(r)
				if err != nil {
					b.Fatal(err)
				}
				wired = append(wired, text)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r := new(pb.RateLimitRequest)
				must.Do(b, proto.Unmarshal(wired[i%len(wired)], r))
				a, err := s.answer(context.Background(), r)
				must.Do(b, err)
				_, err = proto.Marshal(a)
				must.Do(b, err)
				i++
			}
		})
	}
}
