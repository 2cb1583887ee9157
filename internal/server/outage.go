package server

import "github.com/weirlimit/weir/fallback"

// storeDown says why the store cannot be asked, nil if nothing is known against it.
// It does not ask.
func (s *Server) storeDown() error {
	if s.config.StoreDown != nil {
		if err := s.config.StoreDown(); err != nil {
			return err
		}
	}
	if f, ok := s.config.Engine.(*fallback.Engine); ok {
		if status := f.Status(); status.State == fallback.StoreDown {
			return status.Cause
		}
	}
	return nil
}
