package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

func TestCheckReportsTheServer(t *testing.T) { redistest.OnEachVersion(t, testCheckReportsTheServer) }

func testCheckReportsTheServer(t *testing.T, v redistest.Version) {
	s := v.Shared(t)
	r, err := newEngine(t, s.Conn(t)).Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kind, version, _ := strings.Cut(v.String(), "-")
	if !strings.HasPrefix(strings.ToLower(r.Server), kind+" "+version+".") {
		t.Errorf("got the server %q, want %s", r.Server, v)
	}
	if r.Mode != "standalone" || r.Eviction != "noeviction" || r.Address != s.Addr || r.MaxMemory != 0 {
		t.Errorf("got %+v, want a standalone server at %s that never evicts", r, s.Addr)
	}
	if r.RoundTrip <= 0 || r.Offset.Abs() > r.RoundTrip || len(r.Warnings) > 0 {
		t.Errorf("got %+v, want the clock of this machine and no warning", r)
	}
}

// TestCheckRejectsEviction: a server that may evict grants is rejected with the place and
// the next step.
func TestCheckRejectsEviction(t *testing.T) { redistest.OnEachVersion(t, testCheckRejectsEviction) }

func testCheckRejectsEviction(t *testing.T, v redistest.Version) {
	const password = "s3cret"
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		s := v.Start(t, "--maxmemory", "20mb", "--maxmemory-policy", policy, "--requirepass", password)
		e := newEngine(t, s.Conn(t))
		r, err := e.Check(ctx)
		assert.Error(t, err, weirredis.ErrServer, s.Addr, policy, "set maxmemory-policy noeviction")
		if strings.Contains(fmt.Sprint(err), password) {
			t.Errorf("%s: the error contains the password: %v", policy, err)
		}
		if r.Eviction != policy || r.MaxMemory != 20<<20 {
			t.Errorf("%s: got %+v beside the error", policy, r)
		}
	}
}

// TestCheckRejectsReplicas: a replica cannot record, so the store is out. In a Cluster the check may
// reach one, and clients find the primaries.
func TestCheckRejectsReplicas(t *testing.T) { redistest.OnEachVersion(t, testCheckRejectsReplicas) }

func testCheckRejectsReplicas(t *testing.T, v redistest.Version) {
	primary, replica := v.Start(t), v.Start(t)
	replica.Follow(t, primary)
	_, err := newEngine(t, replica.Conn(t)).Check(ctx)
	assert.Error(t, err, engine.ErrUnavailable, "it follows "+primary.Addr+"; it is a replica: connect to the primary")
	const at = 1767312000000000
	e := newEngine(t, clusterConn{&cannedConn{reply: fmt.Sprint(at, "\nredis_version:7.0.15\r\nredis_mode:cluster\r\nrole:slave\r\n")}})
	e.WithClock(func() time.Time { return time.UnixMicro(at) })
	if r, err := e.Check(ctx); err != nil || len(r.Warnings) > 0 {
		t.Errorf("in a Cluster: got %v, %v, want no warning", r.Warnings, err)
	}
}

func TestCheckOfUnreachableServerIsAStoreError(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	s.Stop()
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := e.Check(within)
	var store *weirredis.StoreError
	if !errors.As(err, &store) || store.OutcomeUnknown || store.Address != s.Addr || !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("got %v, want a StoreError of %s", err, s.Addr)
	}
}

// TestCheckJudgesINFO checks replies to INFO of servers of other kinds and versions.
func TestCheckJudgesINFO(t *testing.T) {
	for _, c := range []struct {
		info    string
		server  string
		problem string // text of the error or, behind a "?", of the warnings
	}{
		{"redis_version:6.2.0\r\n", "Redis 6.2.0", ""},
		{"redis_version:7.4.1\r\nmaxmemory_policy:noeviction\r\n", "Redis 7.4.1", ""},
		{"redis_version:10.0.0\r\nredis_mode:cluster\r\n", "Redis 10.0.0", "?use a client for Clusters"},
		{"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:cluster\r\n", "Valkey 8.0.1", "?use a client for Clusters"},
		{"redis_version:7.4.1\r\nrole:master\r\n", "Redis 7.4.1", ""},
		{"redis_version:6.0.16\r\n", "Redis 6.0.16", "use Redis 6.2 or later"},
		{"redis_version:5.0.7\r\n", "Redis 5.0.7", "use Redis 6.2 or later"},
		{"redis_version:255.255.255\r\nmaxmemory_policy:volatile-lfu\r\n", "Redis 255.255.255", "volatile-lfu"},
		{"", "", "?hides its version"},
	} {
		r := weirredis.Report{Address: "10.0.0.7:6379"}
		err := r.Judge(c.info)
		problem, warned := strings.CutPrefix(c.problem, "?")
		if strings.Contains(c.info, "_mode:cluster") != (r.Mode == "cluster") { // the servers name it in two ways
			t.Errorf("%q: got the mode %q", c.info, r.Mode)
		}
		assert.Equal(t, r.Server, c.server, "%q: server", c.info)
		if problem != "" && !warned {
			assert.Error(t, err, weirredis.ErrServer, problem, r.Address)
			continue
		}
		must.Do(t, err)
		if text := strings.Join(r.Warnings, "\n"); (text == "") == warned || !strings.Contains(text, problem) {
			t.Errorf("%q: got the warnings %q, want %q", c.info, r.Warnings, problem)
		}
	}
}

// TestClockOffsetIsAWarning: a server with a clock that is hours away is accepted with a
// warning, because only the server's clock decides.
func TestClockOffsetIsAWarning(t *testing.T) {
	c := &cannedConn{reply: "1767312000000000\nredis_version:7.0.15\r\n"}
	e := newEngine(t, c)
	e.WithClock(func() time.Time { return time.UnixMicro(1767312000000000).Add(-3 * time.Hour) })
	r, err := e.Check(ctx)
	if err != nil || r.Offset != 3*time.Hour || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "3h0m0s") {
		t.Errorf("got %+v, %v, want an offset of 3h and a warning", r, err)
	}
}

// TestErrorsOfOtherVersions: before version 7 a server wraps the error of a command in a script.
// A refused command has other texts in each version.
func TestErrorsOfOtherVersions(t *testing.T) {
	const wrapped = "Error running script (call to f_8b93): @user_script:343: @user_script: 343: "
	for reply, want := range map[string]string{
		wrapped + "-OOM command not allowed when used memory > 'maxmemory'.":                                                    "rejected: OOM command not allowed when used memory > 'maxmemory'.; it is at its maxmemory: raise it",
		wrapped + "-READONLY You can't write against a read only replica.":                                                      "rejected: READONLY You can't write against a read only replica.; it is a replica",
		wrapped + "attempt to compare nil with number":                                                                          "it is damaged",
		wrapped + "The user executing the script can't run this command or subcommand":                                          "; its user needs +@scripting",
		"NOPERM ACL failure in script: User u has no permissions to run the 'hget' command":                                     "; its user needs +@scripting",
		"ERR ACL failure in script: User u has no permissions to run the 'time' command script: aa73dca7dd, on @user_script:7.": "; its user needs +@scripting",           // Redis 8.0 and Valkey 8.1
		"ACL failure in script: No permissions to access a key script: 8a2f221803, on @user_script:1.":                          "; its user needs +@scripting",           // a client removed the ERR
		"ERR Unknown command called from script script: 48151ed257, on @user_script:1.":                                         "; a rename-command or a proxy disables", // Valkey 8.1
		"NOPERM User weir:app has no permissions to run the 'evalsha' command":                                                  "; its user needs +@scripting",
		"ERR unknown command 'evalsha', with args beginning with: '3c494e185b' '1' 'weir:weir3:{old}user'":                      "; a rename-command or a proxy disables",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                      "; it is a replica that has lost its primary",
		wrapped + "Unknown Redis command called from Lua script":                                                                "; a rename-command or a proxy disables",
		"ERR Unknown Redis command called from script script: 3c494e185b, on @user_script:158.":                                 "; a rename-command or a proxy disables",
		"unknown command 'evalsha', with args beginning with: '3c494e185b' '1'":                                                 "; a rename-command or a proxy disables", // a client removed the ERR
		"ERR unknown command 'evalsha', with args beginning with: '3c494e185b' '1' 'weir3:{old}user'":                           "; a rename-command or a proxy disables",
		wrapped + "Script killed by user with SCRIPT KILL...":                                                                   "nothing was counted; see its SLOWLOG",
	} {
		l := limiter(t, newEngine(t, &movingConn{answers: []string{reply}}), "old", weir.AllOrNothing, perUser(5, time.Hour))
		_, err := l.Allow(ctx, weir.K("u"))
		outcome := weir.ErrUnavailable
		if strings.Contains(reply, "OOM") {
			outcome = weir.ErrFull
		}
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, outcome) || errors.Is(err, weir.ErrUnreadable) != strings.Contains(want, "damaged") {
			t.Errorf("%s: got %v, want %q", reply, err, want)
		}
	}
}

// TestScriptsThatRunTooLongHaveANextStep: a script blocks the server until an operator ends it.
// Calls meanwhile and the call of an ended script return errors with the next step.
func TestScriptsThatRunTooLongHaveANextStep(t *testing.T) {
	redistest.OnEachVersion(t, testScriptsThatRunTooLongHaveANextStep)
}

func testScriptsThatRunTooLongHaveANextStep(t *testing.T, v redistest.Version) {
	s := v.Start(t, "--lua-time-limit", "1")
	conn, killed := s.Conn(t), make(chan error)
	go func() {
		_, err := conn.Eval(ctx, &weirredis.Script{Text: "while true do end"}, nil, nil)
		killed <- err
	}()
	l := limiter(t, newEngine(t, s.Conn(t)), "busy", weir.AllOrNothing, perUser(5, time.Hour))
	must.Await(t, "BUSY with a next step", func() bool {
		_, err := l.Allow(ctx, weir.K("u"))
		return err != nil && strings.Contains(err.Error(), "BUSY") && strings.Contains(err.Error(), "; a script runs too long: wait") && errors.Is(err, weir.ErrUnavailable)
	})
	s.Must(t, "SCRIPT", "KILL")
	again := limiter(t, newEngine(t, &movingConn{answers: []string{(<-killed).Error()}}), "killed", weir.AllOrNothing, perUser(5, time.Hour))
	_, err := again.Allow(ctx, weir.K("u"))
	assert.Error(t, err, weir.ErrUnavailable, "; nothing was counted; see its SLOWLOG")
	assert.Equal(t, errors.Is(err, weir.ErrUnreadable), false, "%v is ErrUnreadable", err)
}

// TestStoreErrorsNamePlaceReasonAndNextStep reads the error of a server at maxmemory. It is no outage:
// keys that are invented then do not open the breaker of a fallback.
func TestStoreErrorsNamePlaceReasonAndNextStep(t *testing.T) {
	redistest.OnEachVersion(t, testStoreErrorsNamePlaceReasonAndNextStep)
}

func testStoreErrorsNamePlaceReasonAndNextStep(t *testing.T, v redistest.Version) {
	s := v.Start(t, "--maxmemory", "1")
	e := newEngine(t, s.Conn(t))
	for _, mode := range []engine.Outage{fallback.Deny, fallback.Allow, fallback.Share} {
		l := limiter(t, fallback.New(e, mode, fallback.Timeout(time.Minute)), "full", weir.AllOrNothing, perUser(5, time.Hour))
		for range 6 {
			_, err := l.Allow(ctx, weir.K("u"))
			assert.Error(t, err, weir.ErrFull, s.Addr, "OOM", "raise it, or wait") // nothing was counted
		}
		d := mustPeek(t, l, weir.K("u"), 1) // it writes nothing
		assert.Equal(t, d.Degraded, false, "%v: a peek is degraded", mode)
	}
	assert.Equal(t, s.Must(t, "DBSIZE"), "0", "keys that were written")
}

// TestRefusedCommands: a user may lack the right to one command of the scripts. Check names it. A call
// reports that it may be counted if it has begun to write, and is never decided a second time.
func TestRefusedCommands(t *testing.T) { redistest.OnEachVersion(t, testRefusedCommands) }

func testRefusedCommands(t *testing.T, v redistest.Version) {
	s := v.Start(t)
	e := newEngine(t, s.Conn(t))
	commands := map[string]bool{}
	for _, script := range weirredis.Scripts() {
		for _, m := range regexp.MustCompile(`call\('([A-Z]+)'`).FindAllStringSubmatch(script.Text, -1) {
			commands[m[1]] = true
		}
	}
	assert.Equal(t, len(commands), 12, "number of the commands %v", commands)
	calls := map[string]func(l *weir.Limiter) error{
		"one":  func(l *weir.Limiter) error { _, err := l.Allow(ctx, weir.K("u")); return err },
		"two":  func(l *weir.Limiter) error { _, err := l.AllowN(ctx, weir.K("u"), 2); return err },
		"once": func(l *weir.Limiter) error { _, err := l.AllowOnce(ctx, weir.K("u"), 2, "order"); return err },
		"batch": func(l *weir.Limiter) error {
			calls := []weir.Call{{Limiter: l, Key: weir.K("u"), Request: weir.Request{N: 1}}, {Limiter: l, Key: weir.K("u"), Request: weir.Request{N: 1}}}
			weir.DecideAll(ctx, calls)
			return calls[1].Err
		},
	}
	for command := range commands {
		s.Must(t, "ACL", "SETUSER", "default", "-"+strings.ToLower(command))
		_, err := e.Check(ctx)
		if err == nil || !strings.Contains(err.Error(), "its user needs +@scripting") || command != "TIME" && !strings.Contains(err.Error(), s.Addr+" refuses "+command+" (") {
			t.Errorf("without %s: Check returned %v, want an error with it and the rights", command, err)
		}
		for name, call := range calls {
			hour, user := perUser(5, time.Hour), perUser(5, time.Minute)
			hour.Name = "hour"
			l := limiter(t, e, "refused-"+name+strings.ToLower(command), weir.AllOrNothing, hour, user)
			err := call(l)
			s.Must(t, "ACL", "SETUSER", "default", "+@all")
			states := make([]weir.LimitState, 2)
			if _, err := (&weir.Call{Limiter: l, Key: weir.K("u"), Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(ctx); err != nil {
				t.Fatal(err)
			}
			s.Must(t, "ACL", "SETUSER", "default", "-"+strings.ToLower(command))
			used := max(states[0].Used, states[1].Used)
			switch {
			case err == nil:
				if states[0].Used != states[1].Used || used < 1 || used > 2 {
					t.Errorf("%s without %s: used %d and %d, want the units of the call", name, command, states[0].Used, states[1].Used)
				}
			case errors.Is(err, weir.ErrOutcomeUnknown) != (used > 0) || errors.Is(err, weir.ErrUnavailable) == (used > 0) || errors.Is(err, weir.ErrUnreadable) || used > 2:
				t.Errorf("%s without %s: got %v, used %d", name, command, err, used)
			case !strings.Contains(err.Error(), s.Addr) || !strings.Contains(err.Error(), "its user needs +@scripting"):
				t.Errorf("%s without %s: got %v, want the place and the rights", name, command, err)
			}
		}
		s.Must(t, "ACL", "SETUSER", "default", "+@all")
	}
	s.Must(t, "FLUSHALL")
	if r, err := e.Check(ctx); err != nil || len(r.Warnings) > 0 || s.Must(t, "DBSIZE") != "0" {
		t.Errorf("got %+v, %v, want no warning and no key", r, err)
	}
}

// TestRefusedCommandBehindChunks: the first write of an old history may be the deletion of its
// chunks. If the command behind it is refused, the history is no longer what it was. The same
// holds behind a new chunk.
func TestRefusedCommandBehindChunks(t *testing.T) {
	redistest.OnEachVersion(t, testRefusedCommandBehindChunks)
}

func testRefusedCommandBehindChunks(t *testing.T, v redistest.Version) {
	s := v.Start(t)
	l := limiter(t, newEngine(t, s.Conn(t), weirredis.WithChunks(8)), "chunks", weir.AllOrNothing, perUser(50, time.Minute))
	for command, want := range map[string]error{"hdel": weir.ErrUnavailable, "hset": weir.ErrOutcomeUnknown} {
		for i := range 40 {
			mustAllow(t, l.At(nine.Add(time.Duration(i)*time.Second)), weir.K(command))
		}
		s.Must(t, "ACL", "SETUSER", "default", "-"+command)
		if _, err := l.At(nine.Add(time.Hour)).Allow(ctx, weir.K(command)); !errors.Is(err, want) || errors.Is(err, weir.ErrUnreadable) {
			t.Errorf("without %s: got %v, want %v", command, err, want)
		}
		s.Must(t, "ACL", "SETUSER", "default", "+@all")
	}
	s.Must(t, "ACL", "SETUSER", "default", "-pexpire")
	failed := 0
	for i := range 40 { // some renew the time to live, some write a chunk, some both
		_, err := l.At(nine.Add(time.Duration(i)*7*time.Second)).Allow(ctx, weir.K("pexpire"))
		if err != nil {
			failed++
		}
		if err != nil && !errors.Is(err, weir.ErrOutcomeUnknown) {
			t.Errorf("without pexpire, attempt %d: got %v, want ErrOutcomeUnknown", i, err)
		}
	}
	if failed < 4 {
		t.Errorf("without pexpire %d of 40 attempts failed, want at least 4", failed)
	}
}
