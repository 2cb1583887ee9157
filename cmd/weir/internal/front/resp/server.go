package resp

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/cmd/weir/internal/serving"
)

// Config configures a Server. The first four are required.
type Config struct {
	Policies     func() *serving.Set // in force
	Reservations *reserve.Service    // of these policies
	Capacity     *serving.Capacity   // of requests that wait for the store
	Errors       *observe.Log        // of the store
	Waits        bool                // decisions wait for a store, so those of a pipeline run concurrently
	Guard        Guard               // default: every client has all rights
	Version      string              // of the program, for INFO
	Log          *slog.Logger        // default: no log
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
