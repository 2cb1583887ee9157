package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is what the go command wrote into the binary about its origin.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s %s/%s %s", v, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
