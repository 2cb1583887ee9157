package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is what the go command wrote into the binary about its origin, such as
// v1.2.3 or (devel).
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

// versionLine is the version, and what the binary was built for and with.
func versionLine() string {
	return fmt.Sprintf("%s %s/%s %s", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
