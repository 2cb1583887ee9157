// Package redispeers puts Weir and the rate limiters that Go programs and tutorials use on
// Redis behind one interface.
//
// A Peer is called as its library's documentation shows, with the library's client and its
// usual settings. A Form is the list of commands that a decision sends to the server. A
// program can pipeline the commands of many decisions to measure only the server.
package redispeers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Request is one attempt of a key for N units at an instant.
type Request struct {
	Key string
	N   int64 // most forms always take one unit and ignore it
	At  int64 // microseconds since 1970; forms that read the server's clock ignore it
}

// Form is one algorithm as commands.
type Form struct {
	Name        string
	Note        string
	ServerClock bool // reads the server's clock, so that a log cannot be filled in advance
	ReadsAll    bool // every decision reads the whole log, so its cost grows with the log

	// New returns the decider of a limit per window.
	New func(limit int64, window time.Duration) Decider
}

// Decider returns the commands of decisions of one limit. It is not safe for concurrent use.
type Decider interface {
	// Commands returns the commands of one decision, in order.
	Commands(a Request) [][]any
	// Scripts returns the scripts to which the commands refer by hash.
	Scripts() []string
}

// A Filler can put an entry into a key's log without a decision. Forms with slow decisions
// use it to fill a large log.
type Filler interface {
	Entry(a Request) []any
}

// A Holder can count the units in a key's log.
type Holder interface {
	// Held returns ErrNoLog if there is no log.
	Held(ctx context.Context, c *redis.Client, a Request) (int64, error)
}

// ErrNoLog: the form has no log to count.
var ErrNoLog = errors.New("no log")

// evalsha returns the command that runs the script with the hash.
func evalsha(sha string, keys []string, args []any) []any {
	c := make([]any, 0, 3+len(keys)+len(args))
	c = append(c, "EVALSHA", sha, len(keys))
	for _, k := range keys {
		c = append(c, k)
	}
	return append(c, args...)
}
