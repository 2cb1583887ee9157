// Package redispeers puts Weir and the rate limiters that Go programs and tutorials use
// on Redis behind one interface.
//
// A Peer is called as its library's documentation shows, with the client it is written
// for and that client's usual settings. A Form is the commands that a decision sends to
// the server. A program can pipeline the commands of many decisions to measure the
// server alone.
package redispeers

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ask is one question: may the key take n units at an instant?
type Ask struct {
	Key string
	N   int64 // most forms know one unit only, and take no notice
	At  int64 // microseconds since 1970; forms that read the server's clock take no notice
}

// Form is one way to decide, as commands.
type Form struct {
	Name        string
	Note        string
	ServerClock bool // reads the server's clock, so that a log cannot be filled in advance
	ReadsAll    bool // every decision reads the whole log, so its cost grows with the log

	// New returns the decider of a limit of so many units per window.
	New func(limit int64, window time.Duration) Decider
}

// Decider states the decisions of one limit. It is not safe for concurrent use.
type Decider interface {
	// Commands are the commands of one decision, in order.
	Commands(a Ask) [][]any
	// Scripts are the texts that the commands refer to by their hashes.
	Scripts() []string
}

// A Filler can put an entry into a key's log without deciding, for forms whose
// decisions are too slow to fill a large log with.
type Filler interface {
	Entry(a Ask) []any
}

// A Holder can tell how many units a key's log holds.
type Holder interface {
	// Held returns ErrNoLog where there is none to count.
	Held(ctx context.Context, c *redis.Client, a Ask) (int64, error)
}

// ErrNoLog: the form keeps no log to be counted.
var ErrNoLog = errors.New("no log")

// evalsha is the command that runs the script of that hash.
func evalsha(sha string, keys []string, args []any) []any {
	c := make([]any, 0, 3+len(keys)+len(args))
	c = append(c, "EVALSHA", sha, len(keys))
	for _, k := range keys {
		c = append(c, k)
	}
	return append(c, args...)
}
