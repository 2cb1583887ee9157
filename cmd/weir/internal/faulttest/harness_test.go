package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// meddling makes every tenth call by tenth.
type meddling struct {
	weirredis.Conn
	calls atomic.Int64
	tenth func(eval func() (string, error)) (string, error)
}

func (m *meddling) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	eval := func() (string, error) { return m.Conn.Eval(ctx, s, keys, args) }
	if m.calls.Add(1)%10 == 0 {
		return m.tenth(eval)
	}
	return eval()
}

// twice repeats a call, as a client does that retries calls without an answer.
func twice(eval func() (string, error)) (string, error) {
	if reply, err := eval(); err != nil {
		return reply, err
	}
	return eval()
}

// deny returns an error that denies the call that it has made.
func deny(eval func() (string, error)) (string, error) {
	reply, err := eval()
	if err != nil {
		return reply, err
	}
	return "", weirredis.ReplyError("OOM command not allowed")
}

// recorder is a test that records its errors and does not fail.
type recorder struct {
	testing.TB
	errors []string
}

func (l *recorder) Helper()                   {}
func (l *recorder) Error(args ...any)         { l.errors = append(l.errors, fmt.Sprint(args...)) }
func (l *recorder) Errorf(f string, a ...any) { l.errors = append(l.errors, fmt.Sprintf(f, a...)) }

// TestHarnessFindsFaults injects wrong answers and lost data, which the harness must find.
func TestHarnessFindsFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn := clients[0].open(t, at(server.Addr))
	random := rand.New(rand.NewPCG(1, 0))
	settle := func(l *recorder, g *rig, calls []call) { g.settle(l, calls, nothingLost) }
	for _, c := range []struct {
		want  string
		conn  weirredis.Conn
		check func(l *recorder, g *rig, calls []call)
	}{
		{"counted twice", &meddling{Conn: conn, tenth: twice}, settle},
		{"against the answer", &meddling{Conn: conn, tenth: deny}, settle},
		{"calls failed, want none", &meddling{Conn: conn, tenth: deny}, func(l *recorder, _ *rig, calls []call) { noErrors(l, calls) }},
		{"not recorded", conn, func(l *recorder, g *rig, calls []call) {
			server.Must(t, "FLUSHALL")
			settle(l, g, calls)
		}},
		{"a write was partial", conn, func(l *recorder, g *rig, _ []call) {
			for _, key := range server.List(t, "KEYS", "*"+g.name+"*all*") {
				server.Must(t, "DEL", key)
			}
			l.Error(g.agree(t))
		}},
		{"at most 10 + 5 lost", conn, func(l *recorder, g *rig, calls []call) {
			g.limits[0].Max = 10
			g.audit(l, calls, 5)
		}},
		{"after 1s", conn, func(l *recorder, _ *rig, _ []call) {
			inTime(l, []call{{to: grace + 2*time.Second, err: errors.New("no answer")}}, time.Second)
		}},
		{"none of 1 calls failed", conn, func(l *recorder, _ *rig, _ []call) { someFailed(l, []call{{}}) }},
	} {
		g := newRig(t, c.conn, tightAndAll(1_000_000, time.Hour))
		f := g.traffic(8, patience, random)
		f.flows(t)
		l := &recorder{TB: t}
		c.check(l, g, f.end(t))
		if all := strings.Join(l.errors, "\n"); !strings.Contains(all, c.want) {
			t.Errorf("got %q, want an error with %q", all, c.want)
		}
	}
}
