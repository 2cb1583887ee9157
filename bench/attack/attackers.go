package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// attackersArgument starts the program as the process of the attackers. It reads an
// assignment from stdin, attacks until stdin ends, and writes a tally to stdout.
const attackersArgument = "attackers"

// assignment is the input of the process.
type assignment struct {
	Target *target
	Only   string
}

// tally is the output of the process.
type tally struct {
	Steps        map[string]int64 // by attack
	Rate         float64          // steps a second, of all attacks
	Unauthorized int64            // answers that reject a wrong or missing secret
	Revoked      []string         // calls that a revoked token still opened
}

// attack is one way to harm the server. Its step runs rate times a second, with at most
// held steps in progress. Steps beyond that are left out.
type attack struct {
	name string
	rate float64
	held int
	step func(ctx context.Context, f *field) // returns when the server ends it, or with ctx
}

// attacks lists all attacks. Those of one front are in one file.
func attacks() []attack {
	var all []attack
	for _, some := range [][]attack{rpcAttacks, webAttacks, redisAttacks, hoardAttacks, keyAttacks, fileAttacks} {
		all = append(all, some...)
	}
	return all
}

// field is the state that all attacks share.
type field struct {
	*target
	generation   atomic.Int64 // number of the current rotating token
	unauthorized atomic.Int64

	mu      sync.Mutex // protects the following
	revoked []string
}

// token is the rotating token that is valid now.
func (f *field) token() string { return rotating(f.generation.Load()) }

// address is one of the attackers' addresses.
func address() string { return fmt.Sprintf("127.0.0.%d", 2+rand.IntN(8)) }

// dial connects from an attacker's address. The connection ends with ctx.
func dial(ctx context.Context, to string) (net.Conn, error) {
	conn, err := source(address()).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return conn, nil
}

// hold reads and discards until the server closes the connection, or ctx ends.
func hold(conn net.Conn) {
	io.Copy(io.Discard, conn)
	conn.Close()
}

// runAttackers is the process of the attackers.
func runAttackers(in io.Reader, out io.Writer) {
	syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
	decoder := json.NewDecoder(in)
	var a assignment
	if err := decoder.Decode(&a); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, in) // also ends when the parent ends
		cancel()
	}()
	f := &field{target: a.Target}
	t := tally{Steps: map[string]int64{}}
	var all sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for _, each := range attacks() {
		if !strings.Contains(each.name, a.Only) {
			continue
		}
		all.Go(func() {
			n := each.run(ctx, f)
			mu.Lock()
			defer mu.Unlock()
			t.Steps[each.name] = n
		})
	}
	all.Wait()
	for _, n := range t.Steps {
		t.Rate += float64(n) / time.Since(start).Seconds()
	}
	t.Unauthorized, t.Revoked = f.unauthorized.Load(), f.revoked
	json.NewEncoder(out).Encode(t)
}

// run takes the steps of one attack until ctx ends, and returns their number.
func (a attack) run(ctx context.Context, f *field) (n int64) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / a.rate))
	defer tick.Stop()
	places := make(chan struct{}, a.held)
	var steps sync.WaitGroup
	for {
		select {
		case <-ctx.Done():
			steps.Wait()
			return n
		case <-tick.C:
		}
		select {
		case places <- struct{}{}:
			n++
			steps.Go(func() {
				a.step(ctx, f)
				<-places
			})
		default:
		}
	}
}

// attackers is the running process.
type attackers struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan error
	out  tally
}

func startAttackers(t *target, only string) (*attackers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &attackers{cmd: exec.Command(self, attackersArgument), done: make(chan error, 1)}
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { a.done <- json.NewDecoder(out).Decode(&a.out) }()
	return a, json.NewEncoder(a.in).Encode(assignment{t, only})
}

// stop ends the attacks and returns their tally.
func (a *attackers) stop() (tally, error) {
	a.in.Close()
	select {
	case err := <-a.done:
		if err != nil {
			return a.out, fmt.Errorf("the attackers failed: %w", err)
		}
		return a.out, a.cmd.Wait()
	case <-time.After(20 * time.Second):
		a.cmd.Process.Kill()
		a.cmd.Wait()
		return a.out, fmt.Errorf("the attackers did not end within 20 s")
	}
}
