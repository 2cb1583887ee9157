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

// workload is one kind of request.
type workload struct {
	name string
	key  string
	keys int // number of values of key
	over bool
}

var workloads = []workload{
	{"granted, 10,000 keys", "user", 10_000, false},
	{"denied, one hot key", "hot", 1, true},
}

// connections is the number of connections that the clients share.
const connections = 4

// clients are the connections to one server, and the requests.
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

// anything accepts every code.
const anything pb.RateLimitResponse_Code = -1

// answer returns the expected code; the empty service has none.
func (w *workload) answer(deciding bool) pb.RateLimitResponse_Code {
	switch {
	case !deciding:
		return pb.RateLimitResponse_UNKNOWN
	case w.over:
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return pb.RateLimitResponse_OK
}

// load sends requests for a duration and returns the number of answers. It fails on an
// unexpected answer: the result would measure something else.
func (c *clients) load(callers int, each time.Duration, w workload, want pb.RateLimitResponse_Code) (int64, error) {
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
					continue // on a busy machine the store sometimes exceeds its timeout
				}
				if err == nil && a.OverallCode != want && want != anything {
					err = fmt.Errorf("%s: got %v, want %v", w.name, a.OverallCode, want)
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
