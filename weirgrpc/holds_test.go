package weirgrpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// atOnce is n at once for each tenant, for at most an hour.
func atOnce(n int64) weir.Limit {
	return weir.Limit{Name: "running", Kind: weir.KindConcurrency, Max: n, MaxHold: time.Hour, By: []string{"tenant"}}
}

// used returns the units of acme that count in each limit.
func used(t *testing.T, l *weir.Limiter) (units []int64) {
	t.Helper()
	states := make([]weir.LimitState, len(l.Compiled().Limits))
	if _, err := (&weir.Call{Limiter: l, Key: weir.K("acme"), Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		units = append(units, s.Used)
	}
	return units
}

// awaitUsed waits until so many units count. A client gets its answer before the
// interceptor returns.
func awaitUsed(t *testing.T, l *weir.Limiter, want ...int64) {
	t.Helper()
	must.Await(t, fmt.Sprint("units count: ", want), func() bool { return slices.Equal(used(t, l), want) })
}

// TestCallsHoldUntilTheHandlerReturns: concurrent calls never hold more than Max, and all
// holds end. A call that is denied for concurrency charges no rate.
func TestCallsHoldUntilTheHandlerReturns(t *testing.T) {
	l := newLimiter(t, nil, perTenant(1000), atOnce(3))
	conn := limited(t, l, byTenant)
	var all sync.WaitGroup
	var mu sync.Mutex
	served := int64(0)
	for range 16 {
		all.Go(func() {
			for range 8 {
				switch _, err := once(as("acme"), conn, "hi"); status.Code(err) {
				case codes.OK:
					mu.Lock()
					served++
					mu.Unlock()
				case codes.ResourceExhausted:
				default:
					t.Error(err)
				}
				if n := used(t, l)[1]; n > 3 {
					t.Errorf("%d are held", n)
				}
			}
		})
	}
	all.Wait()
	awaitUsed(t, l, served, 0)
}

// TestStreamsHoldUntilTheHandlerReturns: a stream holds from its beginning to its end.
func TestStreamsHoldUntilTheHandlerReturns(t *testing.T) {
	l := newLimiter(t, nil, perTenant(1000), atOnce(2))
	conn := limited(t, l, byTenant)
	first, err := many(t, as("acme"), conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := through(first, "a"); err != nil {
		t.Fatal(err)
	}
	awaitUsed(t, l, 1, 1)
	second, _ := many(t, as("acme"), conn)
	if _, err := through(second, "a"); err != nil {
		t.Fatal(err)
	}
	third, _ := many(t, as("acme"), conn)
	if _, err := through(third, "a"); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "tenant=acme") {
		t.Errorf("a third stream: %v", err)
	}
	first.CloseSend()
	awaitUsed(t, l, 2, 1)
	second.CloseSend()
	awaitUsed(t, l, 2, 0)
}

// stream is a server's stream without a connection.
type stream struct{ grpc.ServerStream }

func (stream) Context() context.Context { return context.Background() }

// TestHoldsEndWithAPanic: the panic of a handler passes the interceptors unchanged.
func TestHoldsEndWithAPanic(t *testing.T) {
	l := newLimiter(t, nil, perTenant(1000), atOnce(2))
	by := By{"tenant": func(context.Context, *Call) (string, error) { return "acme", nil }}
	for name, call := range map[string]func(){
		"unary": func() {
			Unary(l, by)(context.Background(), wrapperspb.String("hi"), &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
				awaitUsed(t, l, 1, 1)
				panic("a fault")
			})
		},
		"stream": func() {
			Stream(l, by)(nil, stream{}, &grpc.StreamServerInfo{}, func(any, grpc.ServerStream) error {
				awaitUsed(t, l, 1, 1)
				panic("a fault")
			})
		},
	} {
		if _, err := l.Reset(context.Background(), weir.K("acme")); err != nil {
			t.Fatal(err)
		}
		if p := assert.Recovered(call); p != "a fault" {
			t.Errorf("%s: recovered %v", name, p)
		}
		if got := used(t, l); got[0] != 1 || got[1] != 0 {
			t.Errorf("%s: after the panic %v count, want 1 and 0", name, got)
		}
	}
}
