package server

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/topkeys"
	"github.com/weirlimit/weir/weirhttp"
)

// newEnvoy makes the rate limit service of the configuration.
func (s *Server) newEnvoy() {
	o := s.config.EnvoyOptions
	o.Engine, o.Log, o.Tracer = s.config.Engine, s.log, s.config.Tracer
	o.Took = func(d time.Duration) { s.metrics.Took(observe.GRPC, d) }
	if s.config.TopKeys != TopOff {
		o.Top = func() *topkeys.Sketch { return s.newSketch(s.rules.Load().Rules()) }
	}
	s.envoy = envoy.New(o)
	s.rules.Store(s.config.Envoy)
}

// addressable are the policies as the rate limit service addresses them.
func (set *served) addressable() []envoy.Policy {
	all := make([]envoy.Policy, len(set.entries))
	for i, e := range set.entries {
		all[i] = envoy.Policy{Plan: e.plan, Engine: e.envoy,
			TierBy: e.TierBy, Varies: len(e.Tiers)+len(e.Overrides) > 0}
		if !e.Shadow { // its engine tells
			all[i].Observer = e
		}
	}
	return all
}

// ReloadEnvoy puts another configuration of the rate limit service in force, or,
// when the error is not nil, leaves the one before.
func (s *Server) ReloadEnvoy(c *envoyconf.Config) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := s.envoy.Load(c, s.serving.Load().addressable()); err != nil {
		s.noteEnvoy(err)
		return err
	}
	s.rules.Store(c)
	s.noteEnvoy(nil)
	return nil
}

// ReloadEnvoyFailed notes that another configuration was wanted and could not be
// read. The one in force stays.
func (s *Server) ReloadEnvoyFailed(err error) { s.noteEnvoy(err) }

func (s *Server) noteEnvoy(err error) {
	if err != nil {
		s.envoyFailed.Store(true)
		s.envoyErrors.Add(1)
		s.log.Error("envoy configuration not reloaded; the one in force stays", "error", err)
		return
	}
	s.envoyFailed.Store(false)
	s.envoyReloads.Add(1)
	c := s.rules.Load()
	s.log.Info("envoy configuration reloaded", "source", c.Source, "domains", len(c.Domains), "rules", c.Rules())
	for _, warning := range c.Warnings {
		s.log.Warn("envoy configuration", "warning", warning)
	}
}

// envoyShown is what /readyz says of the Envoy configuration.
type envoyShown struct {
	Source  string `json:"source"`
	Domains int    `json:"domains"`
	Rules   int    `json:"rules"`
	Failed  bool   `json:"last_reload_failed,omitempty"`
}

func (s *Server) showEnvoy() *envoyShown {
	c := s.rules.Load()
	if c == nil {
		return nil
	}
	return &envoyShown{c.Source, len(c.Domains), c.Rules(), s.envoyFailed.Load()}
}

// envoyCaller names the trace that a request is part of as gRPC would, while somebody
// wants to know.
func (s *Server) envoyCaller(r *http.Request) context.Context {
	if s.config.Tracer == nil {
		return r.Context()
	}
	return metadata.NewIncomingContext(r.Context(), metadata.Pairs("traceparent", s.traceparent(r)))
}

// serveEnvoy answers the rate limit service's requests in JSON, as the reference
// does: 200 or, if it is over, 429.
func (s *Server) serveEnvoy(w http.ResponseWriter, r *http.Request) {
	d := desks.Get().(*desk)
	defer d.put()
	var err error
	if d.body, err = s.readBody(w, r, d.body); err != nil {
		s.refuse(w, err)
		return
	}
	if !s.room.enter() {
		s.refuse(w, errBusy)
		return
	}
	defer s.room.leave()
	code, text, err := s.envoy.JSON(s.envoyCaller(r), d.body)
	if err != nil {
		weirhttp.WriteError(w, code, err.Error())
		return
	}
	writeJSON(w, code, answer.Printable(text))
}
