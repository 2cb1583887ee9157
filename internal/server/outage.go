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
