package weirredis_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestCachedDenialsAndAnotherProcess: a call of another process becomes visible when the
// cached denial expires, to the microsecond of its time (R8). Until then the answer is that
// of the state before that call, marked Cached, and never grants. The same call in this
// process becomes visible immediately.
func TestCachedDenialsAndAnotherProcess(t *testing.T) {
	const ttl = 100 * time.Millisecond
	other := startProcess(t, redistest.Shared(t).Addr)
	for _, c := range []struct {
		call    string // of the other process, on 2 of 5 units
		n       int64  // of the denied attempt
		granted int64  // to the attempt after the call
	}{
		{"refund", 4, 4},
		{"reset", 4, 4},
		{"cancel", 2, 2},
		{"allow", 4, 0},
		{"record", 4, 0},
	} {
		for _, here := range []bool{false, true} {
			e := newEngine(t, redisConn(t))
			now := nine
			e.WithClock(func() time.Time { return now })
			l := limiter(t, e, fmt.Sprint("processes", time.Now().UnixNano()), weir.AllOrNothing, perUser(5, time.Hour))
			grant := must(t)(l.AllowN(ctx, weir.K("u"), 2))
			calls := other
			if here {
				calls = &process{limiter: func(string) *weir.Limiter { return l }}
			}
			if c.call == "cancel" {
				calls.do(t, l, "reserve", grant)
			}
			attempt := func() weir.Decision { return must(t)(l.AllowN(ctx, weir.K("u"), c.n)) }
			denied := attempt()
			now = now.Add(ttl / 2)
			if d := attempt(); denied.Allowed || denied.Cached || !d.Cached {
				t.Fatalf("%s: got %+v, then %+v; want a denial, and then a cached one", c.call, denied, d)
			}
			calls.do(t, l, c.call, grant)
			if !here {
				now = now.Add(ttl/2 - time.Microsecond)
				want, age := denied, ttl-time.Microsecond
				want.Cached, want.At, want.RetryAfter, want.ResetAfter = true, denied.At.Add(age), denied.RetryAfter-age, denied.ResetAfter-age
				if d := attempt(); d != want {
					t.Errorf("%s in another process: got %+v, want %+v", c.call, d, want)
				}
				now = now.Add(time.Microsecond)
			}
			d := attempt()
			if d.Cached || d.Granted != c.granted {
				t.Errorf("%s, in this process: %v: got %+v at its end, want %d units from the server", c.call, here, d, c.granted)
			}
			if ends := d.At.Add(d.RetryAfter); d.Granted == 0 && !ends.After(denied.At.Add(denied.RetryAfter)) {
				t.Errorf("%s, in this process: %v: the wait ends at %v, want it later than before", c.call, here, ends)
			}
		}
	}
}

// process makes calls in another process or, without one, in this.
type process struct {
	in      io.Writer
	out     *bufio.Scanner
	limiter func(policy string) *weir.Limiter
	held    *weir.Reservation
}

// processEnv holds the server's address in the environment of another process.
const processEnv = "WEIR_REDIS_PROCESS"

// startProcess runs the test binary once more, for calls until the end of the test.
func startProcess(t *testing.T, addr string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processEnv+"="+addr, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &process{in: in, out: bufio.NewScanner(out)}
}

// do makes a call under the policy of l for user u. grant is that of 2 units.
func (p *process) do(t *testing.T, l *weir.Limiter, call string, grant weir.Decision) {
	t.Helper()
	policy, answer := l.Compiled().Name, ""
	if p.in == nil {
		answer = p.answer(policy, call, grant.At.UnixMicro())
	} else if _, err := fmt.Fprintln(p.in, policy, call, grant.At.UnixMicro()); err != nil {
		t.Fatal(err)
	} else if p.out.Scan() {
		answer = p.out.Text()
	}
	if answer != "done" {
		t.Fatalf("%s: %q", call, answer)
	}
}

// answer makes a call and returns "done", or the reason why it failed.
func (p *process) answer(policy, call string, granted int64) string {
	l, u := p.limiter(policy), weir.K("u")
	var err error
	ok := true
	switch call {
	case "refund":
		var units int64
		units, err = l.Refund(ctx, u, time.UnixMicro(granted), 2)
		ok = units == 2
	case "reset":
		err = l.Reset(ctx, u)
	case "reserve":
		p.held, _, err = l.Reserve(ctx, u, weir.Request{N: 2})
		ok = p.held != nil
	case "cancel":
		err = p.held.Cancel(ctx)
	case "allow":
		var d weir.Decision
		d, err = l.AllowN(ctx, u, 3)
		ok = d.Granted == 3
	case "record":
		_, err = l.Record(ctx, u, 3)
	}
	if err != nil || !ok {
		return fmt.Sprintf("error %v, result as expected: %v", err, ok)
	}
	return "done"
}

// serveCalls is the main function of another process. It makes the calls of its input.
func serveCalls(addr string) error {
	conn := redistest.NewConn(addr)
	defer conn.Close()
	e, err := weirredis.New(conn)
	if err != nil {
		return err
	}
	p := &process{limiter: func(policy string) *weir.Limiter {
		l, err := weir.New(weir.Policy{Name: policy, Limits: []weir.Limit{perUser(5, time.Hour)}}, weir.WithEngine(e))
		if err != nil {
			panic(err)
		}
		return l
	}}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var policy, call string
		var granted int64
		if _, err := fmt.Sscan(in.Text(), &policy, &call, &granted); err != nil {
			return err
		}
		fmt.Println(strings.ReplaceAll(p.answer(policy, call, granted), "\n", " "))
	}
	return nil
}
