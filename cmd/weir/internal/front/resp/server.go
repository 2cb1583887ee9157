package resp

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// Policies finds the policies that commands name. It is safe for concurrent use.
type Policies interface {
	// Policy returns the policy of that name. The error suggests the nearest name. It does
	// not keep the name.
	Policy(name string) (Policy, error)
	// Names returns the names of all policies.
	Names() []string
}

// Policy decides one policy. Unless Config.Waits is set, keys and ids are valid only
// during the call.
type Policy interface {
	// Compiled is the compiled policy.
	Compiled() *engine.Compiled
	// Decide decides an attempt, a peek or a record. id is the idempotency key; "" = none.
	Decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (weir.Decision, error)
	// Count returns the units of a limit in the last ms milliseconds. limit "" is the only
	// limit of the policy.
	Count(ctx context.Context, key weir.Key, limit string, ms int64) (int64, error)
	// Reserve attempts n units that will be settled within ttl milliseconds; 0 is the
	// longest time. The zero Reservation means that none were granted.
	Reserve(ctx context.Context, key weir.Key, n int64, id string, ttl int64) (weir.Decision, Reservation, error)
	// Refund refunds up to n units of the grant of that instant; once, if there is an id.
	Refund(ctx context.Context, key weir.Key, at time.Time, n int64, id string) (int64, error)
	// Reset deletes the key's histories.
	Reset(ctx context.Context, key weir.Key) error
}

// Varied is a Policy with plans that depend on a further value of a command.
type Varied interface {
	// Vary returns the policy that the dimension=value pairs of a command choose, and the
	// pairs of its key. It does not change pairs.
	Vary(pairs []string) (Policy, []string)
}

// Config configures a Server. Policies and Reservations are required.
type Config struct {
	Policies     Policies
	Reservations Reservations // of these policies
	Waits        bool         // decisions wait for a store, so those of a pipeline run concurrently
	Guard        Guard        // default: every client has all rights
	Version      string       // of the program, for INFO
	Log          *slog.Logger // default: no log
	Limits       Limits
}

// Rights are the rights of a client; 0 = none.
type Rights uint8

const (
	// MayDecide allows decisions.
	MayDecide Rights = 1 << iota
	// MayReset allows WEIR.RESET.
	MayReset
)

// Grant returns the current rights of a credential, 0 after it was revoked. A session
// calls it before every batch of commands.
type Grant func() Rights

// Guard gives rights to clients. Rights add up.
type Guard struct {
	Anybody   Rights                      // of a client without a credential
	Certified func(nc *tls.Conn) Grant    // of a client's certificate, 0 without one; nil = certificates give no rights
	Password  func(password string) Grant // of a password in AUTH or HELLO, 0 if it is wrong; nil = no passwords
}

// Limits bound the time of clients. Zero values stand for the defaults.
type Limits struct {
	Read  time.Duration // for the rest of a partial command; default 10s
	Write time.Duration // for a client to read its answers, and at least half of it; default 10s
	Idle  time.Duration // between two commands, and at least seven eighths of it; default 1h, since client pools expect idle connections to stay open
}

func (l Limits) withDefaults() Limits {
	l.Read = cmp.Or(l.Read, 10*time.Second)
	l.Write = cmp.Or(l.Write, 10*time.Second)
	l.Idle = cmp.Or(l.Idle, time.Hour)
	return l
}

// Server serves Redis clients.
type Server struct {
	config  Config
	started time.Time
	lastID  atomic.Int64

	draining context.Context // ends with Shutdown
	drain    context.CancelFunc

	mu    sync.Mutex // protects the following
	conns map[*conn]struct{}
	open  sync.WaitGroup // one for each of conns

	Counts Counts
}

// Counts are the numbers of commands since the start.
type Counts struct {
	Rejected     atomic.Int64 // commands with bad input
	Unauthorized atomic.Int64 // commands answered with NOAUTH, WRONGPASS or NOPERM
}

// New returns a server that does not serve yet.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Version = cmp.Or(c.Version, "unknown")
	c.Limits = c.Limits.withDefaults()
	if c.Guard.Anybody == 0 && c.Guard.Certified == nil && c.Guard.Password == nil {
		c.Guard.Anybody = MayDecide | MayReset
	}
	s := &Server{config: c, started: time.Now(), conns: map[*conn]struct{}{}}
	s.draining, s.drain = context.WithCancel(context.Background())
	return s
}
