package resp

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/gcra"
)

// Policies finds what WEIR.CHECK and its like name. It is safe for concurrent use;
// names may not be kept.
type Policies interface {
	// Policy returns the policy of that name, or an error that says what there is.
	Policy(name string) (Policy, error)
}

// Policy is one policy as the listener asks it. A Server that does not wait passes
// keys that may not be kept beyond the call.
type Policy interface {
	// Plan is the compiled policy.
	Plan() *weir.Plan
	// Decide answers an attempt, a peek or a record; the id of the operation is "" for
	// one that has none, and may not be kept.
	Decide(ctx context.Context, key weir.Key, op weir.Op, n int64, id string) (weir.Decision, error)
	// Reserve attempts n units that are to be settled within ttl milliseconds; 0 is as
	// long as can be. The zero Reservation says that none were granted.
	Reserve(ctx context.Context, key weir.Key, n int64, id string, ttl int64) (weir.Decision, Reservation, error)
	// Refund takes back up to n units of the grant of that instant; once, if there is
	// an id.
	Refund(ctx context.Context, key weir.Key, at time.Time, n int64, id string) (int64, error)
	// Reset forgets the key's histories.
	Reset(ctx context.Context, key weir.Key) error
}

// Varied is a Policy that more than its dimensions decide about.
type Varied interface {
	// Vary returns the policy that the dimension=value pairs of a command choose,
	// and those pairs that are its key. It does not change them.
	Vary(pairs []string) (Policy, []string)
}

// Throttler decides for CL.THROTTLE. The key may not be kept beyond the call.
type Throttler interface {
	// Throttle decides n units for the key; 0 is a look that changes nothing.
	Throttle(ctx context.Context, key string, l gcra.Limit, n int64) (gcra.Answer, error)
}

// Config is what a Server serves, and how. Policies, Reservations and Throttler are
// required.
type Config struct {
	Policies     Policies
	Reservations Reservations // made by these policies
	Throttler    Throttler
	Waits        bool         // decisions wait for a store, so those of a pipeline are asked for at the same time
	Guard        Guard        // default: everybody may do everything
	Version      string       // of the program
	Log          *slog.Logger // default: no log
	Limits       Limits
}

// Rights are what a client may do; 0 is nothing.
type Rights uint8

const (
	// MayDecide asks for decisions.
	MayDecide Rights = 1 << iota
	// MayReset forgets the histories of keys.
	MayReset
)

// Grant returns the rights that a credential gives now. They end when it is revoked, so
// a session calls it before every batch of commands.
type Grant func() Rights

// Guard says what clients may do. Rights add up.
type Guard struct {
	Anybody   Rights                      // of a client that has shown nothing
	Certified func(nc *tls.Conn) Grant    // of a client's certificate, 0 if it has none; nil = certificates give no rights
	Password  func(password string) Grant // of a password in AUTH or HELLO, 0 if it is wrong; nil = there are no passwords
}

// Limits bound what clients may hold on to. Zero values stand for the defaults.
type Limits struct {
	Read  time.Duration // for the rest of a command that has begun; default 10s
	Write time.Duration // for a client to take its answers, and at least half of it; default 10s
	Idle  time.Duration // between two commands, and at least seven eighths of it; default 1h, since pools of clients expect idle connections to live
	Leave time.Duration // to put one more command once the server drains; default 1s
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&l.Read, 10*time.Second)
	set(&l.Write, 10*time.Second)
	set(&l.Idle, time.Hour)
	set(&l.Leave, time.Second)
	return l
}

// Server answers Redis clients.
type Server struct {
	config  Config
	started time.Time
	lastID  atomic.Int64

	draining context.Context // ends with Shutdown
	drain    context.CancelFunc
	leaveBy  time.Time // when clients that ask nothing must go; known once draining is done

	mu    sync.Mutex // protects the following
	conns map[*conn]struct{}
	open  sync.WaitGroup // one for each of conns

	counts     counts
	complained atomic.Int64 // Unix second of the last line of the log about CL.THROTTLE
}

// counts is what became of commands since the start.
type counts struct {
	allowed, limited, failed atomic.Int64 // of CL.THROTTLE
	refused                  atomic.Int64 // commands that were bad input
	unauthorized             atomic.Int64 // NOAUTH, WRONGPASS and NOPERM
}

// Stats is what became of commands since the start, and how many clients there are.
type Stats struct {
	Conns                                        int   // connections now
	ThrottleAllowed, ThrottleLimited, NoThrottle int64 // answers to CL.THROTTLE; the last are errors
	Refused                                      int64 // commands that were bad input
	Unauthorized                                 int64 // commands answered with NOAUTH, WRONGPASS or NOPERM
}

// New returns a server that does not serve yet.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	c.Limits = c.Limits.withDefaults()
	if c.Guard.Anybody == 0 && c.Guard.Certified == nil && c.Guard.Password == nil {
		c.Guard.Anybody = MayDecide | MayReset
	}
	s := &Server{config: c, started: time.Now(), conns: map[*conn]struct{}{}}
	s.draining, s.drain = context.WithCancel(context.Background())
	return s
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	n := len(s.conns)
	s.mu.Unlock()
	c := &s.counts
	return Stats{n, c.allowed.Load(), c.limited.Load(), c.failed.Load(), c.refused.Load(), c.unauthorized.Load()}
}
