package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// keys is the number of users.
const keys = 10_000

// connections is the number of shared connections.
const connections = 4

// together runs callers until time is up and adds their results.
func together(callers int, each time.Duration, caller func(i int, end time.Time) (int64, error)) (int64, error) {
	var sum atomic.Int64
	var bad atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(each)
	for i := range callers {
		all.Go(func() {
			n, err := caller(i, end)
			if sum.Add(n); err != nil {
				bad.Store(&err)
			}
		})
	}
	all.Wait()
	if err := bad.Load(); err != nil {
		return 0, *err
	}
	return sum.Load(), nil
}

// askGRPC uses Envoy's protocol, on shared connections or on one for each caller.
func askGRPC(shared bool) func(s *server, callers int, each time.Duration) (int64, error) {
	return func(s *server, callers int, each time.Duration) (int64, error) {
		if shared {
			return s.askGRPC(callers, connections, each)
		}
		return s.askGRPC(callers, callers, each)
	}
}

func (s *server) askGRPC(callers, connections int, each time.Duration) (int64, error) {
	var clients []pb.RateLimitServiceClient
	for range connections {
		conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		clients = append(clients, pb.NewRateLimitServiceClient(conn))
	}
	requests := make([]*pb.RateLimitRequest, keys)
	for i := range requests {
		requests[i] = &pb.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("user-%06d", i)}}}}}
	}
	return together(callers, each, func(i int, end time.Time) (n int64, err error) {
		for ; time.Now().Before(end); n++ {
			a, err := clients[i%connections].ShouldRateLimit(context.Background(), requests[rand.IntN(keys)])
			if err != nil || a.OverallCode != pb.RateLimitResponse_OK {
				return n, fmt.Errorf("answered %v, %v", a.GetOverallCode(), err)
			}
		}
		return n, nil
	})
}

// askRueidis sends commands through a Redis client that pipelines concurrent commands.
func askRueidis(s *server, callers int, each time.Duration) (int64, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.resp}, DisableCache: true, PipelineMultiplex: 2}) // 2 to the power of 2
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return together(callers, each, func(_ int, end time.Time) (n int64, err error) {
		for ; time.Now().Before(end); n++ {
			user := fmt.Sprintf("user=user-%06d", rand.IntN(keys))
			a, err := client.Do(context.Background(), client.B().Arbitrary("WEIR.CHECK", "users").Keys(user).Build()).ToArray()
			if err != nil || len(a) != 9 {
				return n, fmt.Errorf("answered %v, %v", a, err)
			}
		}
		return n, nil
	})
}

// pipelines sends depth commands in one write; every caller has its own connection.
func pipelines(depth int) func(*server, int, time.Duration) (int64, error) {
	asks := make([]string, keys)
	const granted = "*9\r\n:1\r\n"
	for i := range asks {
		asks[i] = fmt.Sprintf("*3\r\n$10\r\nWEIR.CHECK\r\n$5\r\nusers\r\n$16\r\nuser=user-%06d\r\n", i)
	}
	return func(s *server, callers int, each time.Duration) (int64, error) {
		return together(callers, each, func(_ int, end time.Time) (n int64, err error) {
			conn, err := net.Dial("tcp", s.resp)
			if err != nil {
				return 0, err
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for ; time.Now().Before(end); n += int64(depth) {
				var text strings.Builder
				for range depth {
					text.WriteString(asks[rand.IntN(keys)])
				}
				if _, err := conn.Write([]byte(text.String())); err != nil {
					return n, err
				}
				for range depth {
					if err := readReply(in, granted); err != nil {
						return n, err
					}
				}
			}
			return n, nil
		})
	}
}

// readReply reads an array that must begin with granted.
func readReply(in *bufio.Reader, granted string) error {
	got := ""
	for len(got) < len(granted) {
		line, err := in.ReadString('\n')
		if got += line; err != nil {
			return err
		}
	}
	if got != granted {
		return fmt.Errorf("got %q, want %q", got, granted)
	}
	rest := int(granted[1]-'0') - 1
	for range rest {
		line, err := in.ReadString('\n')
		if err == nil && line[0] == '$' {
			_, err = in.ReadString('\n') // names of limits are one line
		}
		if err != nil {
			return err
		}
	}
	return nil
}
