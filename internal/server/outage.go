package server

import "github.com/weirlimit/weir"

// storeDown says why the store cannot be asked, nil if nothing is known against it.
// It does not ask.
func (s *Server) storeDown() error {
	if s.config.StoreDown != nil {
		if err := s.config.StoreDown(); err != nil {
			return err
		}
	}
	if f, ok := s.config.Engine.(*weir.FallbackEngine); ok {
		if status := f.Status(); status.State == weir.StoreDown {
			return status.Cause
		}
	}
	return nil
}

// appendOutages appends how the store does that other processes share.
func (s *Server) appendOutages(b []byte, status weir.FallbackStatus) []byte {
	up := int64(1)
	if s.storeDown() != nil {
		up = 0
	}
	b = appendHelp(b, "weir_store_up", "gauge", "1 while nothing is known against the store, 0 while it is down.")
	b = appendNumber(b, "weir_store_up", up)
	b = appendHelp(b, "weir_store_failures_total", "counter", "Calls that the store did not decide.")
	b = appendNumber(b, "weir_store_failures_total", status.Failures)
	b = appendHelp(b, "weir_degraded_decisions_total", "counter", "Decisions made without the store, by when-store-is-down.")
	return appendNumber(b, "weir_degraded_decisions_total", status.Degraded)
}
