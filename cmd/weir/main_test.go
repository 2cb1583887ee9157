package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite what the scripts compare with")

// TestMain makes the test binary be weir where a script runs weir.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// TestScripts runs testdata/script, where every verb is used as a person or a
// script would.
func TestScripts(t *testing.T) {
	redis := redistest.Start(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *rewrite,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or each weir of a -race test ends with a second of sleep
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
