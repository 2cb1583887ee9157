package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// snapshot returns the value and the expiry of every key on the server.
func snapshot(t testing.TB, s *redistest.Server) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, key := range keysOf(t, s) {
		m[key] = contents(t, s, key) + " until " + s.Must(t, "PEXPIRETIME", key)
	}
	return m
}

// contents returns the value of a key as text. Fields of a hash are sorted, because the
// server may reorder them.
func contents(t testing.TB, s *redistest.Server, key string) string {
	t.Helper()
	if s.Must(t, "TYPE", key) != "hash" {
		return s.Must(t, "DUMP", key)
	}
	all := s.List(t, "HGETALL", key)
	var fields []string
	for i := 0; i+1 < len(all); i += 2 {
		fields = append(fields, fmt.Sprintf("%q=%q", all[i], all[i+1]))
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

func keysOf(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	keys := s.List(t, "KEYS", "*")
	slices.Sort(keys)
	return keys
}

// sameSnapshot fails the test if any key or value has changed.
func sameSnapshot(t testing.TB, s *redistest.Server, before map[string]string, what string) {
	t.Helper()
	after := snapshot(t, s)
	for key := range after {
		if after[key] != before[key] {
			t.Errorf("%s: %q holds\n  %s\nbefore it was\n  %s", what, key, after[key], before[key])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%s: the server holds %d keys, before %d", what, len(after), len(before))
	}
}

// rigWithForeignData returns a rig with foreign data under the key of user b.
func rigWithForeignData(t *testing.T, c client, server *redistest.Server) (g *rig, key string) {
	t.Helper()
	g = newRig(t, c.open(t, at(server.Addr)), perUser)
	if c := g.attempt(t.Context(), "b", 1); c.granted != 1 {
		t.Fatalf("got %d granted and %v, want 1", c.granted, c.err)
	}
	key = keysOf(t, server)[0]
	server.Must(t, "DEL", key)
	server.Must(t, "RPUSH", key, "theirs")
	return g, key
}

// Foreign data under the key of one user fail only that user's calls, not the other calls
// of the batch.
func TestForeignDataDoNotFailTheirBatch(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g, key := rigWithForeignData(t, c, server)
		before := contents(t, server, key)
		f := g.traffic(16, patience, r)
		f.flows(t)
		var others []call
		for _, c := range f.end(t) {
			if c.user != "b" {
				others = append(others, c)
			} else if !errors.Is(c.err, weirredis.ErrState) {
				t.Errorf("call of user b: got %d granted and %v, want ErrState", c.granted, c.err)
			}
		}
		noErrors(t, others)
		g.users = []string{"a", "c"}
		g.settle(t, others, nothingLost)
		if got := contents(t, server, key); got != before {
			t.Errorf("%q holds %q, before it was %q", key, got, before)
		}
	})
}

// operations returns the operations that read all limits.
func operations(g *rig) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"attempt": func(ctx context.Context) error { _, err := g.limiter.Allow(ctx, weir.K("a")); return err },
		"peek":    func(ctx context.Context) error { _, err := g.limiter.Peek(ctx, weir.K("a"), 1); return err },
		"record":  func(ctx context.Context) error { _, err := g.limiter.Record(ctx, weir.K("a"), 1); return err },
		"refund": func(ctx context.Context) error {
			_, err := g.limiter.Refund(ctx, weir.K("a"), time.Now(), 1)
			return err
		},
	}
}

// TestErrorsOnDamagedDataWriteNothing damages a long history. The engine may still decode
// it, or return an error; an error writes nothing in any limit, and no call hangs.
func TestErrorsOnDamagedDataWriteNothing(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		g := newRig(t, c.open(t, at(server.Addr)), tightAndAll(weir.MaxUnits, time.Hour))
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		for i := range 400 { // enough for chunks, and for a tail
			if c := g.attempt(ctx, "a", 1+int64(i%3)); c.err != nil {
				t.Fatal(c.err)
			}
		}
		keys := keysOf(t, server)
		rejected := 0
		for i := range 25 {
			key := keys[r.IntN(len(keys))]
			ours := server.Must(t, "DUMP", key)
			what := "a header that ends after its version"
			if i == 0 { // this damage must be noticed; the others are random
				server.Must(t, "HSET", key, "h", "\x01")
			} else {
				what = damage(t, server, key, r)
			}
			before := snapshot(t, server)
			for op, run := range operations(g) {
				if err := run(ctx); err != nil {
					rejected++
					if errors.Is(err, context.DeadlineExceeded) || outcomeUnknown(err) {
						t.Fatalf("%s: %s: got %v, want an answer or an error without effect", what, op, err)
					}
					sameSnapshot(t, server, before, fmt.Sprintf("%s: %s rejected with %v", what, op, err))
				}
				before = snapshot(t, server)
			}
			server.Must(t, "RESTORE", key, "0", ours, "REPLACE")
		}
		if rejected == 0 {
			t.Error("no damage was noticed")
		}
	})
}

// damage changes one field of a history and returns a description of the change.
func damage(t testing.TB, s *redistest.Server, key string, r *rand.Rand) string {
	t.Helper()
	fields := s.List(t, "HKEYS", key)
	field := fields[r.IntN(len(fields))]
	b := []byte(s.Must(t, "HGET", key, field))
	at := r.IntN(len(b))
	what := fmt.Sprintf("field %q of %s, %d bytes: ", field, key, len(b))
	switch r.IntN(4) {
	case 0:
		s.Must(t, "HDEL", key, field)
		return what + "gone"
	case 1:
		s.Must(t, "HSET", key, field, string(b[:at]))
		return what + fmt.Sprintf("cut off at %d", at)
	case 2:
		s.Must(t, "HSET", key, field, string(b)+"\xff")
		return what + "a byte more"
	default:
		b[at] ^= byte(1 + r.IntN(255))
		s.Must(t, "HSET", key, field, string(b))
		return what + fmt.Sprintf("byte %d is %#x", at, b[at])
	}
}
