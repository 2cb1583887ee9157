package resp

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/enforce"
)

// Config configures a Server. The first four and Log are required.
type Config struct {
	Policies     func() *enforce.Version // in force
	Reservations *reserve.Service        // of these policies
	Capacity     *calls.Capacity         // of requests that wait for the store
	Errors       *observe.Log            // of the store
	Waits        bool                    // decisions wait for a store, so those of a pipeline are made in one call
	Token        *listen.Secret          // gives the rights of programs; nil = no password does
	Admin        *listen.Secret          // gives the right to WEIR.RESET; nil = programs have it, unless NoReset is set
	NoReset      bool                    // operators have another listener
	TLS          *listen.TLS             // with client certificates, each gives the rights of programs; nil = none does
	Version      string                  // of the program, for INFO
	Log          *slog.Logger
}

// rights are the rights of a client; 0 = none. Those of several credentials add up.
type rights uint8

const (
	mayDecide rights = 1 << iota // allows decisions
	mayReset                     // allows WEIR.RESET
)

// password is a password of AUTH or HELLO. Its rights end when it is revoked.
type password struct{ token, admin listen.Credential }

// rightsOf returns the current rights of a password, 0 if it is wrong.
func (s *Server) rightsOf(p password) (may rights) {
	if p.token.Valid() {
		may = s.programs
	}
	if p.admin.Valid() {
		may |= mayReset
	}
	return may
}

// hasPasswords reports whether a password gives rights.
func (s *Server) hasPasswords() bool { return s.config.Token != nil || s.config.Admin != nil }

// Private reports whether clients must authenticate.
func (s *Server) Private() bool { return s.anybody == 0 }

// Bounds of the time of a client.
const (
	readTime  = 10 * time.Second // for the rest of a partial command
	writeTime = 10 * time.Second // for a client to read its answers
	idleTime  = time.Hour        // between two commands: client pools expect idle connections to stay open
)

// Server serves Redis clients.
type Server struct {
	config  Config
	started time.Time

	programs rights // of the token and of certificates
	anybody  rights // of a client without a credential

	lastID  atomic.Int64
	clients atomic.Int64   // open connections
	serving sync.WaitGroup // Serve and its connections

	draining context.Context // ends with Shutdown
	drain    context.CancelFunc
	late     context.Context // ends when Shutdown cuts off the connections that are left
	cutOff   context.CancelFunc

	Counts Counts
}

// Counts are the numbers of commands since the start.
type Counts struct {
	Rejected     atomic.Int64 // commands with bad input
	Unauthorized atomic.Int64 // commands answered with NOAUTH, WRONGPASS or NOPERM
}

// New returns a server that does not serve yet.
func New(c Config) *Server {
	s := &Server{config: c, started: time.Now(), programs: mayDecide}
	if c.Admin == nil && !c.NoReset {
		s.programs |= mayReset
	}
	if c.Token == nil && c.TLS == nil {
		s.anybody = s.programs
	}
	s.draining, s.drain = context.WithCancel(background)
	s.late, s.cutOff = context.WithCancel(background)
	return s
}
