//go:build !linux

package weirdisk

// sync writes a file to stable storage.
func (f systemFile) sync() error { return f.Sync() }

// allocate does nothing.
func (systemFile) allocate(int64, int64) {}
