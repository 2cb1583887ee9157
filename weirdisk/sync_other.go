//go:build !linux

package weirdisk

import "os"

// syncData writes a file to stable storage.
func syncData(f *os.File) error { return f.Sync() }

// allocate does nothing: elsewhere room for the zeros is not certain, and memory of a file
// without room ends the process.
func allocate(*os.File, int64, int64) bool { return false }

func mapped(*os.File, int64, int64) []byte { return nil }

func unmap([]byte) {}
