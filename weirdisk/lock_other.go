//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package weirdisk

import "errors"

const noFollow = 0

// lockDir fails: only these Unix systems release a lock when a process ends.
func lockDir(string, bool) (dirLock, error) {
	return nil, errors.New("a directory cannot be locked on this system; " +
		"use the memory engine, or a Redis server")
}

// checkAccess checks nothing: without the rights a later step of Open fails.
func checkAccess(string, bool) error { return nil }
