package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite what the scripts compare with")

// TestMain lets the test binary run as weir in scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// TestScripts runs the scripts of testdata/script, which use every verb.
func TestScripts(t *testing.T) {
	redis := redistest.Start(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *rewrite,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// By default each weir of a -race test sleeps for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("REDIS", "redis://"+redis.Addr)
			env.Setenv("REDISADDR", redis.Addr)
			env.Values[background{}] = &background{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"serve":      serveInBackground,
			"post":       post,
			"get":        get,
			"eventually": eventually,
			"ratelimit":  ratelimit,
			"hangup":     hangup,
			"signal":     signalServer,
		},
	})
}
