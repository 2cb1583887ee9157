package faulttest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestProcessesShareALimit runs four processes on one policy of one server. Their calls
// are merged by the clock that the processes of a machine share, and audited.
func TestProcessesShareALimit(t *testing.T) {
	eachClient(t, func(t *testing.T, c client, r *rand.Rand) {
		server := redistest.Start(t)
		var workers []*worker
		for range 4 {
			workers = append(workers, startWorker(t, c, server.Addr))
		}
		for _, w := range workers {
			w.await(t) // all, so that they begin together
		}
		for _, w := range workers {
			w.begin(t)
		}
		pauseOne(t, workers, r)
		var calls []call
		for _, w := range workers {
			mine := w.calls(t)
			if len(mine) < enoughCalls {
				t.Errorf("a process made %d calls, want %d at least", len(mine), enoughCalls)
			}
			calls = append(calls, mine...)
		}
		noErrors(t, calls)
		g := workerRig.on(t, c.open(t, at(server.Addr)))
		g.settle(t, calls, nothingLost)
		g.audit(t, calls, 0)
	})
}

// pauseOne stops a process for a while, possibly between a decision and its answer.
func pauseOne(t *testing.T, workers []*worker, r *rand.Rand) {
	t.Helper()
	process := workers[r.IntN(len(workers))].cmd.Process
	for _, signal := range []os.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		if err := process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
}

// workerRig is the same in every process. Its clock is the one that the processes
// of a machine share.
var workerRig = rig{
	name:   "processes",
	limits: tightAndAll(20, 50*time.Millisecond),
	users:  []string{"a", "b", "c"},
	clock:  func() time.Duration { return time.Duration(time.Now().UnixNano()) },
}

// worker is the test binary run once more, as a process that makes calls.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// workerEnv holds the client and the server's address in a worker's environment.
const workerEnv = "WEIR_FAULTTEST_WORKER"

func startWorker(t *testing.T, c client, addr string) *worker {
	t.Helper()
	w := &worker{cmd: exec.Command(os.Args[0])}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+c.name+" "+addr,
		"GORACE=atexit_sleep_ms=0") // else the race detector lets a process linger for a second
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		w.in, err = w.cmd.StdinPipe()
	}
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.cmd.Process.Kill()
		w.cmd.Wait()
	})
	w.out = bufio.NewScanner(out)
	return w
}

func (w *worker) await(t *testing.T) {
	t.Helper()
	if !w.out.Scan() || w.out.Text() != "ready" {
		t.Fatalf("a worker printed %q before it was ready", w.out.Text())
	}
}

func (w *worker) begin(t *testing.T) {
	t.Helper()
	if err := w.in.Close(); err != nil {
		t.Fatal(err)
	}
}

// calls reads the worker's calls.
func (w *worker) calls(t *testing.T) (calls []call) {
	t.Helper()
	for w.out.Scan() {
		var c call
		var problem string
		if _, err := fmt.Sscanf(w.out.Text(), "%s %d %d %d %d %q", &c.user, &c.n, &c.granted, &c.from, &c.to, &problem); err != nil {
			t.Fatalf("a worker printed %q: %v", w.out.Text(), err)
		}
		if problem != "" {
			c.err = errors.New(problem)
		}
		calls = append(calls, c)
	}
	if err := w.out.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// work is the main function of a worker. It prints "ready", waits for the end of its
// input, makes calls for a while and prints them. It returns the exit code.
func work(task string) int {
	name, addr, _ := strings.Cut(task, " ")
	for _, c := range clients {
		if c.name != name {
			continue
		}
		conn, hangUp, err := c.dial(at(addr))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer hangUp()
		g := workerRig
		if err := g.connect(conn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		f := g.traffic(8, patience, rand.New(rand.NewPCG(uint64(os.Getpid()), 0)))
		time.Sleep(700 * time.Millisecond)
		for end := time.Now().Add(patience); f.made() < enoughCalls && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		f.report(os.Stdout)
		return 0
	}
	fmt.Fprintln(os.Stderr, "no client is called", name)
	return 1
}

// enoughCalls is the least number of calls of a process, even on a crowded machine.
const enoughCalls = 100

// made returns the number of calls that have returned.
func (f *traffic) made() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// report stops the traffic and writes a line for each call.
func (f *traffic) report(w io.Writer) {
	close(f.stop)
	f.callers.Wait()
	b := bufio.NewWriter(w)
	defer b.Flush()
	for _, c := range f.calls {
		problem := ""
		if c.err != nil {
			problem = c.err.Error()
		}
		fmt.Fprintf(b, "%s %d %d %d %d %q\n", c.user, c.n, c.granted, c.from, c.to, problem)
	}
}
