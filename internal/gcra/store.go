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

// Store decides on Redis, for several processes: one script for each attempt, on the
// server's clock. It is safe for concurrent use.
type Store struct {
	conn      weirredis.Conn
	timeout   time.Duration
	probeWait time.Duration
	breaker   breaker
}

const (
	callTimeout = 50 * time.Millisecond // of one attempt
	probeWait   = 2 * time.Millisecond  // time that the caller of a probe waits for it
)

// NewStore returns a store on conn.
func NewStore(conn weirredis.Conn) *Store {
	return &Store{conn: conn, timeout: callTimeout, probeWait: probeWait, breaker: breaker{start: time.Now()}}
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

// Throttle is Table.Throttle. It returns within 50 milliseconds, and within 2 after the
// last calls failed. Without a decision of Redis it returns an error that wraps
// weir.ErrUnavailable or, if the attempt may have been counted, weir.ErrUnknownFate.
func (s *Store) Throttle(ctx context.Context, key string, l Limit, n int64) (Answer, error) {
	r, err := l.rate()
	if err == nil {
		err = checkUnits(n)
	}
	if err == nil {
		err = checkKey(key)
	}
	send := s.send
	if err == nil {
		var probe bool
		if probe, err = s.breaker.admit(); probe {
			send = s.probe
		}
	}
	if err != nil {
		return Answer{}, err
	}
	now, arrival, err := send(ctx, keyPrefix+key, &r, n)
	if err != nil {
		return Answer{}, s.callError(err, n > 0)
	}
	a, _ := r.attempt(arrival, now, n)
	return a, nil
}

// send runs the script and counts the result for the breaker.
func (s *Store) send(ctx context.Context, key string, r *rate, n int64) (now, arrival int64, err error) {
	now, arrival, err = s.eval(ctx, key, r, n)
	if ctx.Err() == nil { // a caller that left proves nothing about Redis
		s.breaker.note(err)
	}
	return now, arrival, err
}

// probe sends an attempt while the breaker is open. The caller waits for probeWait. Then the
// attempt continues in the background, and its result is for later attempts.
func (s *Store) probe(ctx context.Context, key string, r *rate, n int64) (now, arrival int64, err error) {
	own, done := *r, make(chan struct{})
	var foundNow, foundArrival int64
	var foundErr error
	go func() {
		defer close(done)
		foundNow, foundArrival, foundErr = s.send(context.WithoutCancel(ctx), key, &own, n)
	}()
	wait := time.NewTimer(s.probeWait)
	defer wait.Stop()
	select {
	case <-done:
		return foundNow, foundArrival, foundErr
	case <-wait.C:
		return 0, 0, errLate
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

// eval runs the script. Units that never fit are sent as 0, a peek: their time may
// overflow nanoseconds.
func (s *Store) eval(ctx context.Context, key string, r *rate, n int64) (now, arrival int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
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

// callError is the error of an attempt without a decision of Redis.
func (s *Store) callError(err error, writes bool) error {
	var refused weirredis.ReplyError
	var unsent weirredis.UnsentError
	e := &weirredis.StoreError{Err: err}
	if a, ok := s.conn.(fmt.Stringer); ok {
		e.Address = a.String()
	}
	e.MayHaveCounted = writes && !errors.As(err, &refused) && !errors.As(err, &unsent)
	return e
}

// isOutage reports whether Redis did not reply. An error reply is a reply.
func isOutage(err error) bool {
	var refused weirredis.ReplyError
	return err != nil && !errors.As(err, &refused)
}

var (
	// errDown is the error of attempts that are not sent.
	errDown = fmt.Errorf("%w: not sent, because the last calls to Redis failed", weir.ErrUnavailable)

	// errLate is the cause of a probe that took longer than probeWait.
	errLate = errors.New("the last calls failed, and this one runs in the background")
)
