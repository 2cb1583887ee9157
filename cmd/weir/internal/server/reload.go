package server

import (
	"errors"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/inline"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
)

// reloads counts the reloads of a file. It is immutable.
type reloads struct {
	done, failed int64
	last         time.Time // zero before the first reload
	succeeded    time.Time // the last success, or the start
	err          error     // the error of the last reload, nil if it succeeded
	changes      []string  // made by the last success
}

// after returns the count after one more reload. err is its error, or nil.
func (r reloads) after(err error) *reloads {
	r.last = time.Now()
	r.err = err
	if err != nil {
		r.failed++
	} else {
		r.done++
		r.succeeded = r.last
	}
	return &r
}

// Reload puts all policies of f in force. A non-nil err is the reason why they cannot be read.
// After an error the older policies stay, and /readyz and /metrics report the error. Requests in
// flight keep the policies with which they started.
//
// Histories belong to the names of policy, limit and key. So they and the counters stay (rule
// R12), unless the kind of a limit changes. Reload is safe for concurrent use.
func (s *Server) Reload(f *policy.File, err error) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	before := s.set().File
	if err == nil {
		f, err = s.served(f)
	}
	if err == nil {
		err = s.policies.Reload(f, s.accept)
	}
	result := s.reloads.Load().after(err)
	if err == nil {
		result.changes = shortened(policy.Changes(before, f))
	}
	s.reloads.Store(result)
	if err != nil {
		s.log.Error("policies not reloaded; those in force stay", "generation", s.Generation(),
			"error", enforce.FirstError(err))
		return err
	}
	s.warnMistakes()
	s.log.Info("policies reloaded", "source", f.Name, "generation", s.Generation(),
		"changes", enforce.JoinChanges(policy.Changes(before, f)))
	return nil
}

// accept gives each policy of next an observer. It continues the counters of the policy with
// the same name in now. It also passes the policies to Envoy's service.
func (s *Server) accept(next, now *enforce.Version) error {
	for _, r := range next.Rules {
		var before *calls.Rule
		if old, err := now.Rule(r.Name); err == nil {
			before = calls.Of(old)
		}
		r.Handle = s.observer.Rule(r, before)
	}
	return s.envoy.Load(s.rules.Load(), next.Rules)
}

// Generation returns the number of the policies in force. It is 1 until the first successful
// Reload.
func (s *Server) Generation() int64 { return s.set().Generation }

var errNothing = errors.New("weir: there is no policy to serve; name a file with at least one")

// served returns the file to serve. It rejects a file without policies, unless there is an
// Envoy configuration.
func (s *Server) served(f *policy.File) (*policy.File, error) {
	if f == nil && s.config.Envoy != nil {
		f = &policy.File{}
	}
	if f == nil || len(f.Policies) == 0 && s.config.Envoy == nil {
		return nil, errNothing
	}
	if s.config.Inline {
		if err := checkInlineNames(f); err != nil {
			return nil, err
		}
	}
	s.observer.Policies = len(f.Policies)
	return f, nil
}

// checkInlineNames rejects a policy whose name an inline policy may have, because both would
// share histories.
func checkInlineNames(f *policy.File) error {
	for _, p := range f.Policies {
		if inline.Named(p.Name) {
			return &policy.Error{
				File: f.Name,
				Line: p.Line,
				Problem: "policy " + p.Name + " has the name of an inline policy, " +
					"which calls may carry by --inline-policies",
				Next: "choose a name that does not begin with " + inline.Prefix,
			}
		}
	}
	return nil
}

// warnMistakes logs warnings about policies in force: expired overrides, and limits that deny
// every attempt.
func (s *Server) warnMistakes() {
	set := s.set()
	for _, p := range set.Rules {
		for _, limit := range definition.Closed(p.Definition) {
			s.log.Warn("a limit allows 0 units, so every attempt is denied; "+
				"write unlimited for no bound",
				"policy", p.Name, "line", p.Line, "limit", limit)
		}
		for _, o := range definition.Expired(p.Definition, set.Since) {
			s.log.Warn("an override has expired and no longer applies; remove it",
				"policy", p.Name, "line", o.Line, "until", httpapi.Stamp(o.Until), "reason", o.Why)
		}
	}
}

// newEnvoy makes Envoy's rate limit service from the configuration.
func (s *Server) newEnvoy() {
	o := s.config.EnvoyOptions
	o.Engine = s.config.Engine
	o.Log = s.log
	o.Tracer = s.config.Tracer
	o.ObserveDuration = func(d time.Duration) { s.metrics.Took[observe.GRPC].Observe(d.Seconds()) }
	o.Top = s.observer.NewSketch
	s.envoy = envoy.New(o)
	s.rules.Store(s.config.Envoy)
}

// ReloadEnvoy puts a configuration of the rate limit service in force. A non-nil err is the
// reason why it cannot be read. After an error the older configuration stays.
func (s *Server) ReloadEnvoy(c *envoyconf.Config, err error) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err == nil {
		err = s.envoy.Load(c, s.set().Rules)
	}
	s.envoyReloads.Store(s.envoyReloads.Load().after(err))
	if err != nil {
		s.log.Error("envoy configuration not reloaded; the one in force stays",
			"error", enforce.FirstError(err))
		return err
	}
	changes := enforce.JoinChanges(envoyconf.Changes(s.rules.Load(), c))
	s.rules.Store(c)
	s.log.Info("envoy configuration reloaded", "source", c.Source, "domains", len(c.Domains),
		"rules", c.Rules(), "changes", changes)
	for _, warning := range c.Warnings {
		s.log.Warn("envoy configuration", "warning", warning)
	}
	return nil
}
