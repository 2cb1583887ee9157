package weir

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// TestBatchesRejectBadInput: bad requests of a batch get the errors of single calls, directly
// and through the interface, and the others are decided.
func TestBatchesRejectBadInput(t *testing.T) {
	for _, e := range []engine.Engine{NewMemory(), otherEngine{NewMemory()}} {
		l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 2, Window: time.Hour, By: []string{"user"}}}}, WithEngine(e))
		calls := []Call{
			{Limiter: l, Key: K("a"), Request: Request{N: 1}},
			{Limiter: l, Key: K("a", "b"), Request: Request{N: 1}},
			{Limiter: l, Key: K("a"), Request: Request{N: -1}, Decision: Decision{Allowed: true}}, // of an earlier use
			{Limiter: l, Key: K("a"), Request: Request{N: 1, At: time.UnixMicro(MaxInstant + 1)}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 2)}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1, Op: 9}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1}, Err: context.Canceled, Decision: Decision{Allowed: true}},
			{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 1)}},
		}
		DecideAll(context.Background(), calls)
		for i, want := range []error{nil, errKey, errUnits, errInstant, errRequest, errRequest, nil, nil} {
			if c := &calls[i]; !errors.Is(c.Err, want) || c.Err != nil && c.Decision != (Decision{}) {
				t.Errorf("%T, request %d: %+v, %v; want %v", e, i, c.Decision, c.Err, want)
			}
		}
		if !calls[0].Decision.Allowed || !calls[6].Decision.Allowed || calls[7].Decision.Allowed || calls[7].Request.States[0].Used != 2 {
			t.Errorf("%T: %+v", e, calls)
		}
		mixed := []Call{Call{Limiter: l, Key: K("b"), Request: Request{N: 1}}, Call{Limiter: l, Key: K(), Request: Request{N: 1}}, {Limiter: l.At(time.Time{}), Key: K("b"), Request: Request{N: 1}}}
		DecideAll(context.Background(), mixed)
		if !mixed[0].Decision.Allowed || !errors.Is(mixed[1].Err, errKey) || !errors.Is(mixed[2].Err, errInstant) {
			t.Errorf("%T: %+v", e, mixed)
		}
	}
	calls := make([]Call, 1)
	if DecideAll(context.Background(), calls); calls[0].Err == nil {
		t.Error("the zero Limiter decided a batch")
	}
}

// TestBatchesReadTheClockOnce: requests on known keys have one instant.
func TestBatchesReadTheClockOnce(t *testing.T) {
	l := mustNew(t, Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1 << 30, Window: time.Hour, By: []string{"user"}}}})
	calls := slices.Repeat([]Call{{Limiter: l, Key: K("a"), Request: Request{N: 1}}}, 4096)
	l.Allow(ctx, K("a"))
	time.Sleep(time.Millisecond) // the batch is later than the history
	DecideAll(ctx, calls)
	for i := range calls {
		if !calls[i].Decision.At.Equal(calls[0].Decision.At) || calls[i].Err != nil {
			t.Fatalf("request %d is decided at %v, %v; want %v", i, calls[i].Decision.At, calls[i].Err, calls[0].Decision.At)
		}
	}
}

// TestBatchesForgetAnswersOfAnEarlierUse: a call that fails at its second use has neither
// the decision nor the states of the first.
func TestBatchesForgetAnswersOfAnEarlierUse(t *testing.T) {
	for _, e := range []engine.Engine{NewMemory(MaxKeys(1)), otherEngine{NewMemory(MaxKeys(1))}} {
		l := mustNew(t, perUser(2, time.Hour), WithEngine(e))
		calls := []Call{Call{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 1)}}}
		DecideAll(ctx, calls)
		if !calls[0].Decision.Allowed || calls[0].Request.States[0].Used != 1 {
			t.Fatalf("%T: got %+v, want a grant", e, calls[0])
		}
		calls[0].Key = K("b")
		DecideAll(ctx, calls)
		if c := &calls[0]; !errors.Is(c.Err, ErrFull) || c.Decision != (Decision{}) || c.Request.States[0] != (LimitState{}) {
			t.Errorf("%T: got %+v, want only ErrFull", e, c)
		}
	}
	blind := mustNew(t, limits(2), WithEngine(blindEngine{err: ErrFull})) // it fails after it has filled a state
	calls := []Call{{Limiter: blind, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 2)}}}
	if DecideAll(ctx, calls); calls[0].Err != ErrFull || calls[0].Request.States[0] != (LimitState{}) {
		t.Errorf("got %+v, want only ErrFull", calls[0])
	}
}

// TestBatchesDecideOnTheEngineOfEachCall: neighbours in a batch can have limiters on different
// engines.
func TestBatchesDecideOnTheEngineOfEachCall(t *testing.T) {
	var calls []Call
	for range 2 {
		l := mustNew(t, perUser(1, time.Hour), WithEngine(NewMemory()))
		calls = append(calls, Call{Limiter: l, Key: K("a"), Request: Request{N: 1}})
	}
	for _, want := range []bool{true, false} {
		DecideAll(ctx, calls)
		for i := range calls {
			if c := &calls[i]; c.Err != nil || c.Decision.Allowed != want {
				t.Errorf("engine %d: %+v, %v; want allowed %v", i, c.Decision, c.Err, want)
			}
		}
	}
}
