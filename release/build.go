package main

import (
	"cmp"
	"os"
	"path/filepath"
)

// goCommand is the go command that builds weir. Another version of Go makes other bytes, so the
// SBOM names the version.
var goCommand = cmp.Or(os.Getenv("GO"), "go")

// A target is a platform for which weir is built.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// executable returns the name of the program on a target.
func (t target) executable() string {
	if t.os == "windows" {
		return "weir.exe"
	}
	return "weir"
}

// moduleCache returns the directory of the modules of the build. It is not the user's, where
// this version of weir's modules would stay.
func (s *source) moduleCache() string { return filepath.Join(s.temp, "modules") }

// build compiles weir for a target, and returns the path of the program. The go command takes
// its version from the tag of the clone, and weir's other modules from the proxy.
func (s *source) build(t target) (binary string, err error) {
	binary = filepath.Join(s.temp, "bin", t.os+"_"+t.arch, t.executable())
	env, err := s.goEnv()
	if err != nil {
		return "", err
	}
	env = append(env, "GOOS="+t.os, "GOARCH="+t.arch)
	_, err = output(filepath.Join(s.dir, "cmd/weir"), env, goCommand,
		"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, ".")
	return binary, err
}

// goEnv returns the environment of the go command, without settings of the user that change the
// bytes of a program.
func (s *source) goEnv() ([]string, error) {
	cache, err := output(s.dir, nil, goCommand, "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	proxies, err := output(s.dir, nil, goCommand, "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	return []string{
		"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-modcacherw", "GOTOOLCHAIN=local", "GOEXPERIMENT=", "GODEBUG=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOENV=off",
		"GOMODCACHE=" + s.moduleCache(),
		"GOPROXY=file://" + s.proxy() + ",file://" + cache + "/cache/download," + proxies,
		"GONOSUMDB=" + module + "," + module + "/*",
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
	}, nil
}
