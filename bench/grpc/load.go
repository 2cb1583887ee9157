package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// configuration has one rule that grants everything and one that grants almost nothing.
const configuration = `domain: bench
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}
  - {key: hot, rate_limit: {unit: hour, requests_per_unit: 1}}
`

// workload is a stream of requests.
type workload struct {
	name string
	key  string
	keys int // how many values of it
	over bool
}

var workloads = []workload{
	{"granted, 10,000 keys", "user", 10_000, false},
	{"denied, one hot key", "hot", 1, true},
}

// connections is how many connections the clients share.
const connections = 4

// clients ask one server.
type clients struct {
	conns    []*grpc.ClientConn
	requests []*pb.RateLimitRequest
}

func dial(s *server, w workload) (*clients, error) {
	c := &clients{}
	for range connections {
		conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	for i := range w.keys {
		c.requests = append(c.requests, &pb.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: w.key, Value: fmt.Sprintf("user-%06d", i)}}}}})
	}
	return c, nil
}

func (c *clients) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

// anything, as an answer that is meant, is any.
const anything pb.RateLimitResponse_Code = -1

// answer is the one that is meant: the empty service has none.
func (w *workload) answer(deciding bool) pb.RateLimitResponse_Code {
	switch {
	case !deciding:
		return pb.RateLimitResponse_UNKNOWN
	case w.over:
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return pb.RateLimitResponse_OK
}

// ask asks for a while and returns how many answers there were. Every answer must be
// the one that is meant, or the measurement would be of something else.
func (c *clients) ask(callers int, each time.Duration, w workload, want pb.RateLimitResponse_Code) (int64, error) {
	var answers, late atomic.Int64
	var bad atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(each)
	for i := range callers {
		client := pb.NewRateLimitServiceClient(c.conns[i%len(c.conns)])
		all.Go(func() {
			n := int64(0)
			for ; time.Now().Before(end); n++ {
				a, err := client.ShouldRateLimit(context.Background(), c.requests[rand.IntN(len(c.requests))])
				if status.Code(err) == codes.Unavailable && late.Add(1) < 10+n/50 {
					continue // on a crowded machine the store misses its budget now and then
				}
				if err == nil && a.OverallCode != want && want != anything {
					err = fmt.Errorf("%s: answered %v, meant %v", w.name, a.OverallCode, want)
				}
				if err != nil {
					bad.Store(&err)
					break
				}
			}
			answers.Add(n)
		})
	}
	all.Wait()
	if err := bad.Load(); err != nil {
		return 0, *err
	}
	return answers.Load(), nil
}
