package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/policy"
)

var errNoPolicy = errors.New("weir: there is no policy to serve; name a file with at least one")

// reloads is what became of attempts to put other policies in force.
type reloads struct {
	done, failed int64
	last         time.Time // of the last attempt; zero before the first
	succeeded    time.Time // the last one that did, which may be the start
	err          error     // why it failed, nil when it did not
}

// Reload puts the policies of f in force, all of them or, when the error is not
// nil, none: then those before stay, and /readyz and /metrics say why. Requests
// under way end by the policies they began with. Histories belong to the names of
// policy, limit and key, so they stay (R12), and so do the counts of what became
// of requests. Reload is safe for concurrent use.
func (s *Server) Reload(f *policy.File, source string) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	before := s.serving.Load()
	next, err := s.compile(f, source, before)
	if err == nil {
		err = s.envoy.Load(s.rules.Load(), next.addressable())
	}
	if err == nil {
		s.serving.Store(next)
		s.log.Info("policies reloaded", "source", source, "generation", next.generation, "changes", shown(policy.Changes(before.file, f)))
	}
	s.noteReload(err)
	return err
}

// ReloadFailed notes that other policies were wanted and could not be read. Those
// in force stay.
func (s *Server) ReloadFailed(err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.noteReload(err)
}

// noteReload replaces what is known of reloads; s.reloading is held.
func (s *Server) noteReload(err error) {
	r := *s.reloads.Load()
	r.last, r.err = time.Now(), err
	if err == nil {
		r.done++
		r.succeeded = r.last
	} else {
		r.failed++
		s.log.Error("policies not reloaded; those in force stay", "generation", s.Generation(), "error", firstLine(err))
	}
	s.reloads.Store(&r)
}

// firstLine is what is wrong and where, without the line of the file: that is for a
// terminal, and may name customers.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// shown is the first few changes in one line.
func shown(changes []string) string {
	const most = 10
	if n := len(changes) - most; n > 0 {
		changes = append(changes[:most:most], fmt.Sprintf("and %d more", n))
	}
	if len(changes) == 0 {
		return "none"
	}
	return strings.Join(changes, "; ")
}

// Generation counts the sets of policies that were in force: 1 until the first
// Reload that succeeds.
func (s *Server) Generation() int64 { return s.serving.Load().generation }
