// Package resp serves decisions in the protocol of Redis, so that any Redis client is a
// client of Weir: RESP2, and RESP3 after HELLO 3.
//
//	WEIR.POLICIES                                       lists the policies
//	WEIR.CHECK   policy dimension=value … [n] [WAIT ms] [ID id]  attempts n units
//	WEIR.PEEK    policy dimension=value … [n]           the same, without a change
//	WEIR.COUNT   policy dimension=value … last_ms [LIMIT name]  counts the units of a span
//	WEIR.RECORD  policy dimension=value … [n] [ID id]   adds units without a decision
//	WEIR.REFUND  policy dimension=value … at_us [n] [ID id]     refunds units of a grant
//	WEIR.RESERVE policy dimension=value … [n] [TTL ms] [WAIT ms] [ID id]  attempts an estimate
//	WEIR.SETTLE  reservation [actual]                   settles it with the real units, or all
//	WEIR.RELEASE reservation                            settles it with 0
//	WEIR.EXTEND  reservation [n [reserved]]             renews it, and takes n more units
//	WEIR.RESET   policy dimension=value … [LIMIT name] …  deletes a key's histories
//	WEIR.BLOCK   policy dimension=value … for_ms [LIMIT name] …  blocks a key for a time
//
// The commands that client libraries send when they connect work too, such as HELLO, AUTH and
// INFO. docs/resp.md is the manual.
//
// A denial is an answer, an error is a RESP error (R15): "ERR …" for bad input, of which
// nothing was charged (R14), "UNAVAILABLE …" if no decision could be made.
//
// All commands in the read buffer are answered in one write, in their order. If
// decisions wait for a store, those that follow each other are made in one call.
//
// Trade-off: every connection has bounds of size, arguments and time, and one password,
// but there are no users.
package resp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/enforce"
)

// Config configures a Server. Policies, Capacity, Errors and Log are required.
type Config struct {
	Policies func() *enforce.Version // in force
	Inline   *inline.Policies        // nil = commands carry no policies of their own
	Capacity *calls.Capacity         // for requests that wait for the store
	Errors   *observe.Log            // for errors of the store
	Log      *slog.Logger

	// Waits is whether decisions wait for a store. Then those of a pipeline are made in one call.
	Waits bool

	// Token gives the rights of programs; nil = no password does.
	Token *listen.Secret

	// Admin gives the right to WEIR.RESET and WEIR.BLOCK; nil = programs have it, unless NoReset
	// is set because operators have another listener.
	Admin   *listen.Secret
	NoReset bool

	// TLS gives the rights of programs to each client certificate; nil = none has rights.
	TLS *listen.TLS
}

// rights are the rights of a client; 0 = none. Those of several credentials add up.
type rights uint8

const (
	mayDecide rights = 1 << iota // allows decisions
	mayReset                     // allows WEIR.RESET and WEIR.BLOCK
)

// hasPasswords reports whether a password gives rights.
func (s *Server) hasPasswords() bool { return s.config.Token != nil || s.config.Admin != nil }

// Private reports whether clients must authenticate.
func (s *Server) Private() bool { return s.anybody == 0 }

// Bounds of the time of a client.
const (
	readTime  = 10 * time.Second // for the rest of a partial command
	writeTime = 10 * time.Second // for a client to read its answers
	// between two commands: client pools expect idle connections to stay open
	idleTime = time.Hour
)

// Server serves Redis clients.
type Server struct {
	config Config

	programs rights // rights by the token or a certificate
	anybody  rights // rights without a credential

	lastID  atomic.Int64
	clients atomic.Int64   // open connections
	serving sync.WaitGroup // Serve and its connections

	draining context.Context // ends with Shutdown
	drain    context.CancelFunc
	late     context.Context // ends when Shutdown cuts off the connections that are left
	cutOff   context.CancelFunc

	// Counts since the start.
	Rejected     atomic.Int64 // commands with bad input
	Unauthorized atomic.Int64 // commands answered with NOAUTH, WRONGPASS or NOPERM
}

// finder finds the policies of commands.
func (s *Server) finder() inline.Finder {
	return inline.Finder{Version: s.config.Policies, Inline: s.config.Inline}
}

// New returns a server that does not serve yet.
func New(c Config) *Server {
	s := &Server{config: c, programs: mayDecide}
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

// Serve accepts connections from l until l is closed or Shutdown is called; then it
// returns nil. It returns an error if l fails. l is closed. A Server serves once.
func (s *Server) Serve(l net.Listener) error {
	s.serving.Add(1)
	defer s.serving.Done()
	defer l.Close()
	defer context.AfterFunc(s.draining, func() { l.Close() })()
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.serving.Go(newConn(s, nc).serve)
		case s.isDraining() || errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err): // open connections go on
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.config.Log.Warn("cannot accept a connection; trying again", "error", err, "in", pause)
			time.Sleep(pause)
		default:
			return fmt.Errorf("resp: cannot accept connections: %w", err)
		}
	}
}

// isTemporary reports errors of a single connection, and a temporary lack of file
// descriptors or memory.
func isTemporary(err error) bool {
	temporary := []error{
		syscall.ECONNABORTED,
		syscall.EMFILE,
		syscall.ENFILE,
		syscall.ENOBUFS,
		syscall.ENOMEM,
	}
	return slices.ContainsFunc(temporary, func(t error) bool { return errors.Is(err, t) })
}

func (s *Server) isDraining() bool { return s.draining.Err() != nil }

// Shutdown accepts no more connections and reads no more commands. Commands that were read
// are answered, then their connections are closed. When ctx ends first, the remaining
// connections are cut off, and the error reports their number.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	var left atomic.Int64 // clients at the end of ctx
	defer context.AfterFunc(ctx, func() {
		left.Store(s.clients.Load())
		s.cutOff()
	})()
	s.serving.Wait()
	if n := left.Load(); n > 0 {
		return fmt.Errorf("resp: %d clients did not read their answers in time and were cut off", n)
	}
	return nil
}
