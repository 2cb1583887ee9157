package gcra

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// Store decides on Redis, for several processes: one script for each attempt, on
// the server's clock. It is safe for concurrent use.
type Store struct {
	conn     weirredis.Conn
	budget   time.Duration
	patience time.Duration
	breaker  breaker
}

const (
	budget   = 50 * time.Millisecond // how long Redis may take for one attempt
	patience = 2 * time.Millisecond  // how long the caller of one waits while Redis is taken to be gone
)

// NewStore returns a store on conn.
func NewStore(conn weirredis.Conn) *Store {
	return &Store{conn: conn, budget: budget, patience: patience, breaker: breaker{start: time.Now()}}
}

// keyPrefix begins every key; the caller's bytes follow it.
const keyPrefix = "weir1:throttle:"

//go:embed throttle.lua
var text string

var script = newScript()

func newScript() *weirredis.Script {
	sum := sha1.Sum([]byte(text))
	return &weirredis.Script{Name: "throttle", Text: text, SHA1: hex.EncodeToString(sum[:])}
}

// Throttle is Table.Throttle. It answers within 50 milliseconds, and within 2 once the
// last calls failed; what Redis does not decide is an error that wraps weir.ErrUnavailable or, where the attempt may
// have been counted, weir.ErrUnknownFate.
func (s *Store) Throttle(ctx context.Context, key string, l Limit, n int64) (Answer, error) {
	r, err := l.rate()
	if err == nil {
		err = checkUnits(n)
	}
	if err == nil {
		err = checkKey(key)
	}
	put := s.put
	if err == nil {
		var probe bool
		if probe, err = s.breaker.admit(); probe {
			put = s.probe
		}
	}
	if err != nil {
		return Answer{}, err
	}
	now, arrival, err := put(ctx, keyPrefix+key, &r, n)
	if err != nil {
		return Answer{}, s.problem(err, n > 0)
	}
	a, _ := r.attempt(arrival, now, n)
	return a, nil
}

// put asks, and notes what that says of Redis.
func (s *Store) put(ctx context.Context, key string, r *rate, n int64) (now, arrival int64, err error) {
	now, arrival, err = s.ask(ctx, key, r, n)
	if ctx.Err() == nil { // a caller who left says nothing about Redis
		s.breaker.note(err)
	}
	return now, arrival, err
}

// probe asks a Redis that is taken to be gone. The caller waits a little: the attempt
// goes on without him, and what it finds is for those who come after.
func (s *Store) probe(ctx context.Context, key string, r *rate, n int64) (now, arrival int64, err error) {
	asked, done := *r, make(chan struct{})
	var foundNow, foundArrival int64
	var foundErr error
	go func() {
		defer close(done)
		foundNow, foundArrival, foundErr = s.put(context.WithoutCancel(ctx), key, &asked, n)
	}()
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	select {
	case <-done:
		return foundNow, foundArrival, foundErr
	case <-patience.C:
		return 0, 0, errLate
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

// ask runs the script. What could never fit is asked as a look: it may be more
// than nanoseconds can say.
func (s *Store) ask(ctx context.Context, key string, r *rate, n int64) (now, arrival int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	by := int64(0)
	if n <= r.limit {
		by = n * r.interval
	}
	args := append(appendSpan(make([]string, 0, 4), by), appendSpan(nil, r.burst)...)
	reply, err := s.conn.Eval(ctx, script, []string{key}, args)
	if err != nil {
		return 0, 0, err
	}
	first, second, _ := strings.Cut(reply, " ")
	if now, err = strconv.ParseInt(first, 10, 64); err == nil {
		arrival, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%d bytes that are not a reply of this version; is there a proxy that changes replies?", len(reply))
	}
	return now, arrival, nil
}

// appendSpan appends nanoseconds as whole seconds and the rest.
func appendSpan(args []string, ns int64) []string {
	return append(args, strconv.FormatInt(ns/1e9, 10), strconv.FormatInt(ns%1e9, 10))
}

// problem is the error of an attempt that Redis did not decide.
func (s *Store) problem(err error, writes bool) error {
	var refused weirredis.ReplyError
	var unsent weirredis.UnsentError
	e := &weirredis.StoreError{Err: err}
	if a, ok := s.conn.(fmt.Stringer); ok {
		e.Address = a.String()
	}
	e.MayHaveCounted = writes && !errors.As(err, &refused) && !errors.As(err, &unsent)
	return e
}

// isOutage reports whether err says that Redis could not be asked: a refusal is an
// answer.
func isOutage(err error) bool {
	var refused weirredis.ReplyError
	return err != nil && !errors.As(err, &refused)
}

var (
	// errDown is the error of attempts that are not made.
	errDown = fmt.Errorf("%w: not asked, since the last calls to Redis failed", weir.ErrUnavailable)

	// errLate is the cause of those that are made and not waited for.
	errLate = errors.New("the last calls failed, and this one is not waited for")
)
