package faulttest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// rounds is the number of rounds of TestWaiters.
var rounds = flag.Int("faulttest.rounds", 30, "`number` of rounds of 64 waiters in four processes")

const (
	waitingProcesses = 4
	waitersEach      = 16
	waitMax          = 8
	waitWindow       = 10 * time.Millisecond

	// storeVariable holds the address of the store in a process of waiters.
	storeVariable = "WEIR_FAULTTEST_WAITERS"
)

// round is one key for which all waiters wait.
type round struct {
	Number  int
	Seed    uint64
	Cancels bool // some waiters stop waiting
	Kills   bool // a process is killed meanwhile
}

// turn is the report of one waiter. Instants are microseconds of the store's clock.
type turn struct {
	At, Start int64
	Cancelled bool
	Unknown   bool // the wait was stopped during the attempt, which may have been charged, or its units may be kept
	Err       string
}

// waitingLimiter returns the limiter of all waiters. The limit of a day counts all units of a key.
func waitingLimiter(addr string) (*weir.Limiter, error) {
	conn, _, err := dialRueidis(at(addr))
	if err != nil {
		return nil, err
	}
	store, err := weirredis.New(conn)
	if err != nil {
		return nil, err
	}
	return weir.New(weir.Policy{
		Name:       "waiters",
		Dimensions: []string{"round"},
		Limits: []weir.Limit{
			weir.Per(waitMax, waitWindow, "round").Named("pace"),
			weir.PerDay(1_000_000, "round").Named("all"),
		},
	}, weir.WithEngine(store))
}

// key is that of all waiters of the round.
func (r *round) key() weir.Key { return weir.K(fmt.Sprint("round-", r.Number)) }

// wait waits for one turn.
func (r *round) wait(l *weir.Limiter, random *rand.Rand) turn {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.Cancels && random.IntN(3) == 0 {
		stop := time.AfterFunc(time.Duration(random.IntN(60))*time.Millisecond, cancel)
		defer stop.Stop()
	}
	d, err := l.Wait(ctx, r.key())
	done := time.Now().UnixMicro()
	report := turn{At: d.At.UnixMicro(), Start: d.At.Add(d.StartAfter).UnixMicro()}
	switch {
	case errors.Is(err, context.Canceled):
		// The call that gives the units back has a second, which a busy machine may exceed.
		isLate := errors.Is(err, context.DeadlineExceeded)
		report.Cancelled, report.Unknown = true, d.At.IsZero() || isLate
	case err != nil:
		report.Err = err.Error()
	case done < report.Start:
		report.Err = fmt.Sprintf("Wait returned at %d, %d µs before the turn", done, report.Start-done)
	}
	return report
}

// runWaiters is a process of waiters: it reads rounds, and reports the turns of each.
func runWaiters(addr string, in io.Reader, out io.Writer) error {
	limiter, err := waitingLimiter(addr)
	if err != nil {
		return err
	}
	commands, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r round
		if err := commands.Decode(&r); err != nil {
			return nil // the parent has ended
		}
		turns := make([]turn, waitersEach)
		var all sync.WaitGroup
		for i := range turns {
			all.Go(func() { turns[i] = r.wait(limiter, rand.New(rand.NewPCG(r.Seed, uint64(i)))) })
		}
		all.Wait()
		if err := reports.Encode(turns); err != nil {
			return err
		}
	}
}

// waiterProcess is a running process of waiters.
type waiterProcess struct {
	cmd     *exec.Cmd
	rounds  *json.Encoder
	reports *json.Decoder
}

// startWaiters starts a process of waiters.
func startWaiters(t *testing.T, addr string) *waiterProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), storeVariable+"="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &waiterProcess{cmd: cmd, rounds: json.NewEncoder(in), reports: json.NewDecoder(bufio.NewReader(out))}
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as SIGKILL does.
func (p *waiterProcess) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// TestWaiters: 64 callers in four processes wait for their turns on one key. In the order of their
// decisions their turns never go back, no window holds more turns than the limit, each turn comes
// at the first instant with room, and the store has recorded each one once (R18). Some rounds have
// callers that stop waiting, and some lose a process.
func TestWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter, err := waitingLimiter(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(*firstSeed), 7))
	processes := make([]*waiterProcess, waitingProcesses)
	for i := range processes {
		processes[i] = startWaiters(t, server.Addr)
	}
	made, cancelled, killed := 0, 0, 0
	for number := range *rounds {
		r := round{Number: number, Cancels: random.IntN(3) == 0, Kills: random.IntN(5) == 0}
		turns, lost := r.run(t, processes, random)
		if lost >= 0 {
			killed++
			processes[lost] = startWaiters(t, server.Addr)
		}
		recorded, err := countAll(t.Context(), limiter, r.key())
		if err != nil {
			t.Fatal(err)
		}
		if breach := r.audit(turns, recorded); breach != "" {
			t.Fatalf("seed %d, round %+v: %s\n%+v", *firstSeed, r, breach, turns)
		}
		for _, w := range turns {
			made++
			if w.Cancelled {
				cancelled++
			}
		}
	}
	t.Logf("seed %d: %d rounds, %d turns reported, %d of them cancelled, %d processes killed",
		*firstSeed, *rounds, made, cancelled, killed)
}

// run lets all processes wait, and returns the reported turns. lost is the process that was killed,
// or -1.
func (r *round) run(t *testing.T, processes []*waiterProcess, random *rand.Rand) (turns []turn, lost int) {
	t.Helper()
	lost = -1
	if r.Kills {
		lost = random.IntN(len(processes))
	}
	reports := make([][]turn, len(processes))
	errs := make([]error, len(processes))
	var all sync.WaitGroup
	for i, p := range processes {
		command := *r
		command.Seed = random.Uint64()
		all.Go(func() { errs[i] = cmp.Or(p.rounds.Encode(command), p.reports.Decode(&reports[i])) })
	}
	if lost >= 0 {
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		processes[lost].kill()
	}
	all.Wait()
	for i, err := range errs {
		if err != nil && i != lost {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	return slices.Concat(reports...), lost
}

// countAll returns the units that the store has recorded for a key.
func countAll(ctx context.Context, l *weir.Limiter, key weir.Key) (int64, error) {
	states := make([]weir.LimitState, 2)
	peek := weir.Call{Limiter: l, Key: key, Op: engine.Peek, Request: weir.Request{N: 1, States: states}}
	if _, err := peek.Do(ctx); err != nil {
		return 0, err
	}
	return states[1].Used, nil // with those ahead
}

// audit returns the first broken promise, or "".
func (r *round) audit(turns []turn, recorded int64) string {
	var used []turn
	unknown := int64(waitingProcesses*waitersEach - len(turns)) // the killed process did not report
	for _, w := range turns {
		if w.Err != "" {
			return w.Err
		}
		if w.Unknown {
			unknown++
		}
		if !w.Cancelled {
			used = append(used, w)
		}
	}
	if n := int64(len(used)); recorded < n || recorded > n+unknown {
		return fmt.Sprintf("the store has %d units, and the waiters used %d and perhaps %d more", recorded, n, unknown)
	}
	slices.SortFunc(used, func(a, b turn) int { return cmp.Compare(a.Start, b.Start) })
	window := waitWindow.Microseconds()
	for i := waitMax; i < len(used); i++ {
		if room := used[i-waitMax].Start + window; used[i].Start < room {
			return fmt.Sprintf("the turn at %d is one too many in its window; it has room at %d", used[i].Start, room)
		} else if used[i].Start > max(room, used[i].At) && !r.Cancels && !r.Kills {
			return fmt.Sprintf("the turn at %d is late: there is room at %d", used[i].Start, room)
		}
	}
	if r.Cancels {
		return "" // a cancel makes room for a later call
	}
	slices.SortFunc(used, func(a, b turn) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Start, b.Start)) })
	for i := 1; i < len(used); i++ {
		if used[i].Start < used[i-1].Start {
			return fmt.Sprintf("a call at %d has its turn at %d, and one at %d at %d",
				used[i-1].At, used[i-1].Start, used[i].At, used[i].Start)
		}
	}
	return ""
}

// TestWaitersAuditFindsFaults: the audit reports a broken promise of each kind.
func TestWaitersAuditFindsFaults(t *testing.T) {
	right := make([]turn, 4*waitersEach)
	for i := range right {
		right[i].At = int64(i)
		right[i].Start = int64(i/waitMax)*waitWindow.Microseconds() + int64(i%waitMax)
	}
	all := int64(len(right))
	if breach := (&round{}).audit(right, all); breach != "" {
		t.Fatalf("right turns: %s", breach)
	}
	for name, spoil := range map[string]func(turns []turn, recorded *int64){
		"a lost unit":   func(_ []turn, recorded *int64) { *recorded-- },
		"a second unit": func(_ []turn, recorded *int64) { *recorded++ },
		"too early":     func(turns []turn, _ *int64) { turns[20].Start-- },
		"too late":      func(turns []turn, _ *int64) { turns[len(turns)-1].Start++ },
		"out of order":  func(turns []turn, _ *int64) { turns[30].At, turns[31].At = turns[31].At, turns[30].At },
		"an error":      func(turns []turn, _ *int64) { turns[5].Err = "no answer" },
	} {
		turns, recorded := slices.Clone(right), all
		spoil(turns, &recorded)
		if (&round{}).audit(turns, recorded) == "" {
			t.Errorf("%s was not found", name)
		}
	}
}
