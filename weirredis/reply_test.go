package weirredis_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirredis"
)

// replyPolicies are policies of every queue, by the number of the fuzz target.
var replyPolicies = [][]weir.Limit{
	{{Name: "l", Max: 9, Window: time.Hour}},
	{{Name: "l", Max: 9, Window: time.Hour, Cost: 3}},
	{{Name: "l", Max: 9, Window: time.Hour}, {Name: "m", Max: 99, Window: 2 * time.Hour}},
	{{Name: "l", Max: 7, Window: time.Second, Kind: weir.KindBucket}},
	{{Name: "l", Max: 9, Window: time.Hour, Kind: weir.KindFixed}},
	{{Name: "l", Max: 9, Window: time.Hour, Kind: weir.KindBucket}, {Name: "m", Max: 2, MaxHold: time.Hour, Kind: weir.KindConcurrency}},
}

// FuzzReplies reads bytes of an unknown sender as the reply to a batch. Each caller gets a
// decision under its rules or an error. The error of an unreadable reply does not hide that the
// call may have been counted (R15). A reply that ends too early has no decision for the last
// caller.
func FuzzReplies(f *testing.F) {
	denial, grant := weirredis.Denial(nine, 1, 2, 1), weirredis.Grant(nine, 3)
	failed := "\x03\x00\x01\x00\x05weir:"
	f.Add(denial+grant+denial, uint8(0), uint8(1))
	f.Add(grant+failed+grant, uint8(2), uint8(2))
	f.Add(strings.Replace(denial, "\x00\x01", "\x00\xc8", 1), uint8(0), uint8(1)) // limit 200
	f.Add("\x05"+strings.Repeat("\x01", 24)+"\x02ab"+grant, uint8(0), uint8(3))
	f.Add("\x06"+strings.Repeat("\xff", 25), uint8(1), uint8(255))
	f.Add("\x08"+strings.Repeat("\xff", 21)+"\x09"+strings.Repeat("\xff", 14)+"\x0a"+strings.Repeat("\xff", 22), uint8(3), uint8(2))
	f.Add("\x0b"+strings.Repeat("\x01", 7)+"\x05"+strings.Repeat("\x02", 24)+"\x02ab"+grant, uint8(0), uint8(2))
	f.Add("\x04"+strings.Repeat("\x00", 7), uint8(4), uint8(0))
	f.Add(denial+strings.Repeat("s", 80), uint8(5), uint8(1))
	f.Add("\x04"+denial[1:]+strings.Repeat("\x00", 6*8), uint8(0), uint8(1))
	f.Add("\x04"+denial[1:]+strings.Repeat("\x00", 30), uint8(2), uint8(1))
	f.Add(denial+strings.Repeat("\x00", 30), uint8(5), uint8(0))
	f.Fuzz(func(t *testing.T, text string, policy, callers uint8) {
		conn := &cannedConn{reply: text}
		e := newEngine(t, conn)
		p := plan(t, weir.Policy{Name: "p", Limits: slices.Clone(replyPolicies[int(policy)%len(replyPolicies)])})
		var merged, calls []engine.Call
		for i := range 1 + int(callers) {
			call := engine.Call{Rules: p, N: 1 + int64(i)/200}
			merged = append(merged, call)
			if i < 3 {
				call.States = make([]engine.State, i%2*len(p.Limits))
				calls = append(calls, call)
			}
		}
		e.DecideBatch(context.Background(), merged)
		for i := range merged {
			checkReply(t, &merged[i])
		}
		calls = append(calls,
			engine.Call{Rules: p, Op: engine.Settle, N: 1, ID: "r", Reservation: &engine.Reservation{}},
			engine.Call{Rules: p, Op: engine.Block, From: 1},
			engine.Call{Rules: p, N: 1, ID: "r", TTL: 1, Reservation: &engine.Reservation{}})
		e.Do(context.Background(), calls)
		for i := range calls {
			checkReply(t, &calls[i])
			if r := calls[i].Reservation; r != nil && (r.Units < 0 || r.Units == 0 && *r != engine.Reservation{} || r.Actual < 0) {
				t.Errorf("call %d: got %+v", i, *r)
			}
			if err := calls[i].Err; err != nil && strings.Contains(err.Error(), "not a reply of this version") && !errors.Is(err, weir.ErrOutcomeUnknown) {
				t.Errorf("call %d: got %v, want ErrOutcomeUnknown", i, err)
			}
		}
		if last := &merged[len(merged)-1]; len(text) < 8 && last.Err == nil {
			t.Errorf("%d bytes decided %+v", len(text), last.Result)
		}
	})
}

// checkReply checks that an answer is an error alone, or a result with waits that names a limit of
// the rules or none. A replayed result may name a limit that the rules had at its time (R15).
func checkReply(t *testing.T, c *engine.Call) {
	t.Helper()
	known := c.Result.Limit == "" || c.Result.Replayed || c.Rules.LimitNamed(c.Result.Limit) >= 0
	reset := c.Result.ResetAfter
	waits := c.Result.RetryAfter >= 0 && reset >= 0 && reset != engine.Never
	if c.Err != nil && c.Result != (engine.Result{}) || !known || !waits {
		t.Errorf("got %+v, %v", c.Result, c.Err)
	}
}

// TestNeverIsMinusOneOnTheServer: the server's -1 is Never, also in a repeated denial, and only a
// wait may be -1.
func TestNeverIsMinusOneOnTheServer(t *testing.T) {
	const long = 1 << 40
	conn := &cannedConn{reply: weirredis.Denial(nine, -1, long, long)}
	e := newEngine(t, conn)
	l := limiter(t, e, "p", weir.AllOrNothing, perUser(9, time.Hour))
	for _, cached := range []bool{false, true} {
		d, err := l.AllowN(ctx, weir.K("u"), 10)
		if err != nil || d.RetryAfter != weir.Never || d.Cached != cached {
			t.Errorf("got %+v, %v; want Never, cached: %v", d, err, cached)
		}
	}
	for i, name := range []string{"units", "wait", "next", "interval", "reset", "block", "ahead", "last"} {
		state := [8]int64{}
		state[i] = -1
		conn.reply = weirredis.Denial(nine, -1, 2, 1)
		for _, number := range state {
			conn.reply += string(binary.BigEndian.AppendUint64(nil, uint64(number)))
		}
		states := make([]weir.LimitState, 1)
		d, err := l.Decide(ctx, weir.K("u"), weir.Request{N: 10, States: states})
		switch rejected := errors.Is(err, weir.ErrOutcomeUnknown); {
		case rejected != (i > 1):
			t.Errorf("a state with %s of -1: got %+v, %v", name, d, err)
		case name == "wait" && states[0].RetryAfter != weir.Never:
			t.Errorf("a state with a wait of -1: got %+v", states[0])
		}
	}
}

// TestReplayedDenialOfAFormerLimit: a remembered denial may be by a limit that the policy no
// longer has, at an index beyond its limits (R15).
func TestReplayedDenialOfAFormerLimit(t *testing.T) {
	denial := weirredis.Denial(nine, 1, 2, 1)
	packed := strings.Repeat("\x00", 7) + "\x09" + strings.Repeat("\x00", 41) // a rolling limit of 9 units
	conn := &cannedConn{reply: "\x01\x05" + denial[2:] + "\x38former" + packed + "\x02"}
	e := newEngine(t, conn)
	l := limiter(t, e, "p", weir.CountDenied, perUser(1, time.Minute))
	d, err := l.AllowOnce(ctx, weir.K("u"), 1, "id")
	if err != nil || d.Allowed || !d.Replayed || d.Limit != "former" || d.Max != 9 || d.Used != -1 {
		t.Errorf("got %+v, %v; want the replayed denial of the former limit", d, err)
	}
}

// TestStoredLimitsAreWhole: a remembered operation has no limit, or a whole one behind its name.
func TestStoredLimitsAreWhole(t *testing.T) {
	denial := weirredis.Denial(nine, 1, 2, 1)
	for _, stored := range []string{"\x06former", "\x32" + strings.Repeat("x", 50)} {
		conn := &cannedConn{reply: "\x01\x05" + denial[2:] + stored}
		l := limiter(t, newEngine(t, conn), "p", weir.CountDenied, perUser(1, time.Minute))
		if d, err := l.AllowOnce(ctx, weir.K("u"), 1, "id"); err == nil {
			t.Errorf("%q is read as %+v", stored, d)
		}
	}
}

// TestPackedKinds: the kind of a limit can be read from its packed form.
func TestPackedKinds(t *testing.T) {
	for kind := weir.KindRolling; kind <= weir.KindConcurrency; kind++ {
		l := engine.Limit{Name: "l", Kind: kind, Max: 2, Window: 60_000_000}
		assert.Equal(t, weirredis.KindOfPacked(l), kind, "kind")
	}
}
