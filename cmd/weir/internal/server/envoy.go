package server

import (
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
)

// newEnvoy makes Envoy's rate limit service of the configuration.
func (s *Server) newEnvoy() {
	o := s.config.EnvoyOptions
	o.Engine, o.Log, o.Tracer = s.config.Engine, s.log, s.config.Tracer
	o.ObserveDuration = func(d time.Duration) { s.metrics.ObserveDuration(observe.GRPC, d) }
	if s.config.TopKeys != topkeys.Off {
		o.Top = func() *topkeys.Sketch { return s.observer.NewSketch(s.rules.Load().Rules()) }
	}
	s.envoy = envoy.New(o)
	s.rules.Store(s.config.Envoy)
}

// ReloadEnvoy puts a configuration of the rate limit service in force. After an error the
// older one stays.
func (s *Server) ReloadEnvoy(c *envoyconf.Config) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := s.envoy.Load(c, s.set().Rules); err != nil {
		s.noteEnvoy(err)
		return err
	}
	s.rules.Store(c)
	s.noteEnvoy(nil)
	return nil
}

// ReloadEnvoyFailed counts a reload without a readable configuration. The one in
// force stays.
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
