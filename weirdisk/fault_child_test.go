package weirdisk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// childEnv makes the test binary a child that decides until it is killed.
const childEnv = "WEIRDISK_CHILD"

// childConfig is the value of childEnv.
type childConfig struct {
	Dir         string
	Mode        string  // mode of syncing: always or 100ms
	AnswerFirst bool    // the file layer reports writes before it makes them: the engine is wrong
	Repeat      []event // operations of the life before
}

// TestMain runs the child's part in a child.
func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		var c childConfig
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		if err := c.run(pipe{os.NewFile(3, "journal")}); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startChild starts a child, which is killed at the end of the test at the latest. The
// first channel is closed once it has opened the engine, and the second one gets its journal
// when it has ended.
func startChild(t *testing.T, c childConfig) (cmd *exec.Cmd, began <-chan struct{}, ended <-chan []event) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	if !c.AnswerFirst { // a wrong engine is expected to fail
		cmd.Stderr = os.Stderr
	}
	cmd.ExtraFiles = []*os.File{w}
	must.Do(t, cmd.Start())
	w.Close()
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	opened, journal := make(chan struct{}), make(chan []event, 1)
	go func() {
		journal <- readJournal(r, opened)
		r.Close()
	}()
	return cmd, opened, journal
}

// life runs a child for some time, from its start or from the end of Open, kills it, and
// returns its journal. The error is that of a child that ended by itself.
func life(t *testing.T, c childConfig, span time.Duration, afterOpen bool) (events []event, err error) {
	t.Helper()
	cmd, began, journal := startChild(t, c)
	if afterOpen {
		select {
		case <-began:
		case events = <-journal:
			return events, fmt.Errorf("the child ended by itself: %w", cmd.Wait())
		case <-time.After(3 * time.Minute):
			cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
			cmd.Wait()
			t.Fatal("the child does not open the engine")
		}
	}
	time.Sleep(span)
	cmd.Process.Kill()
	err = cmd.Wait()
	events = <-journal
	if cmd.ProcessState.ExitCode() != -1 {
		return events, fmt.Errorf("the child ended by itself: %w", err)
	}
	return events, nil
}

// run opens the engine, writes the state of every key, and decides for ever.
func (c *childConfig) run(journal pipe) error {
	var on files = system{}
	if c.AnswerFirst {
		on = answerFirst()
	}
	e, err := openEngine(c.Dir, c.Mode, on, snapshotsEvery(32<<10))
	if err != nil {
		return err
	}
	limiters, err := limitersOn(e)
	if err != nil {
		return err
	}
	if err = limiters.observed(func(e *event) { journal.write(*e) }); err != nil {
		return err
	}
	journal.write(event{Kind: ready})
	var all sync.WaitGroup
	errs := make(chan error, callers)
	for i := range callers {
		x := &caller{index: uint16(i), journal: journal, engine: e, limiters: limiters, random: rand.New(rand.NewPCG(rand.Uint64(), 0))}
		all.Go(func() {
			if err := x.repeat(c.Repeat); err != nil {
				errs <- err
				return
			}
			for {
				if err := x.step(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	return <-errs
}

func keyOf(i uint32) weir.Key { return weir.K(strconv.Itoa(int(i))) }

// limiters are those of each table, by version.
type limiters [][]*weir.Limiter

func limitersOn(e engine.Engine) (limiters, error) {
	all := make(limiters, len(policies))
	for i := range policies {
		for _, p := range policies[i].versions {
			l, err := weir.New(p, weir.WithEngine(e))
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], l)
		}
	}
	return all, nil
}

// observed calls each with the state of each key by the first versions.
func (x limiters) observed(each func(*event)) error {
	for i, versions := range x {
		for key := range uint32(policies[i].keys) {
			var room [2]weir.LimitState
			s := room[:len(policies[i].versions[0].Limits)]
			c := weir.Call{Limiter: versions[0], Key: keyOf(key), Op: engine.Peek, Request: weir.Request{N: 1, States: s}}
			d, err := c.Do(context.Background())
			if err != nil {
				return err
			}
			start := int64(0)
			if s[0].Ahead > 0 {
				start = d.At.Add(s[0].LastAhead).UnixMicro()
			}
			each(&event{
				Kind:    state,
				Ahead:   s[0].Ahead,
				Start:   start,
				Table:   uint16(i),
				Key:     key,
				At:      d.At.UnixMicro(),
				Used:    s[0].Used,
				Held:    room[1].Used,
				Blocked: s[0].Blocked > 0,
			})
		}
	}
	return nil
}

// caller is one of the callers of a child.
type caller struct {
	index    uint16
	journal  interface{ write(event) }
	engine   engine.Engine
	limiters limiters
	random   *rand.Rand
	open     reserved // its open reservation
	failed   event    // the call on its reservation that has failed, and that is repeated
}

// reserved is an open reservation of a caller; without an id there is none.
type reserved struct {
	id    uint64
	units int64
}

// limiter returns a version of a table.
func (x *caller) limiter(table uint16) *weir.Limiter {
	versions := x.limiters[table]
	return versions[x.random.IntN(len(versions))]
}

// step makes one random operation.
func (x *caller) step() error {
	e := event{Caller: x.index, Op: attempt, N: 1 + x.random.Int64N(3)}
	switch n := x.random.IntN(11); {
	case n == 0:
		return x.together(e)
	case n < 5:
		e.Table = uint16(x.random.IntN(int(pairs)))
		e.Key = uint32(x.random.IntN(policies[e.Table].keys))
		return x.operate(e)
	case n < 7:
		return x.reserveStep(e)
	case n == 7:
		return x.blockStep(e)
	case n == 8:
		e.Table, e.Key = waitTable, uint32(x.index)
		if e.Op = wait; x.random.IntN(16) == 0 {
			e.Op = reset
		}
		return x.operate(e)
	}
	e.Table, e.Key = ownTable, uint32(x.index)
	switch x.random.IntN(14) {
	case 0:
		e.Op = reset
	case 1, 2, 3:
		e.Op = refund
	case 4, 5, 6:
		e.Op = record
	case 7, 8, 9, 10:
		e.Op, e.ID = once, x.random.Uint64()|1
	}
	return x.operate(e)
}

// reserveStep opens a reservation, or extends or settles the open one. A call that has failed is
// repeated until it is answered.
func (x *caller) reserveStep(e event) error {
	e.Table, e.Key = holdTable, uint32(x.index)
	switch {
	case x.failed.Op != 0:
		e = x.failed
	case x.open.id == 0:
		e.Op, e.ID = reserve, x.random.Uint64()|1
	case x.random.IntN(2) == 0:
		e.Op, e.ID, e.N = settle, x.open.id, max(x.open.units+x.random.Int64N(8)-4, 0)
	default:
		e.Op, e.ID, e.N, e.From = extend, x.open.id, x.random.Int64N(4), x.open.units
	}
	return x.operate(e)
}

// blockStep makes an operation on a key of a policy with blocks.
func (x *caller) blockStep(e event) error {
	e.Table, e.Key = blockTable, uint32(x.index)
	switch x.random.IntN(12) {
	case 0:
		e.Op = reset
	case 1:
		e.Op = record
	case 2:
		e.Op, e.N = block, (24 * time.Hour).Microseconds()
	case 3:
		e.Op, e.N = block, 0
	}
	return x.operate(e)
}

// together takes units of both keys of a pair, or of none.
func (x *caller) together(e event) error {
	e.Key = uint32(x.random.IntN(policies[pairs].keys))
	calls := make([]weir.Call, 2)
	for i := range calls {
		e.Kind, e.Table = called, pairs+uint16(i)
		x.journal.write(e)
		calls[i] = weir.Call{Limiter: x.limiter(e.Table), Key: keyOf(e.Key), Request: weir.Request{N: e.N}}
	}
	if err := weir.DecideTogether(context.Background(), calls); err != nil {
		return err
	}
	for i := range calls {
		d := &calls[i].Decision
		e.Kind, e.Table, e.At, e.Used = acked, pairs+uint16(i), d.At.UnixMicro(), d.Granted
		x.journal.write(e)
	}
	return nil
}

// operate makes an operation on a key.
func (x *caller) operate(e event) (err error) {
	e.Kind = called
	x.journal.write(e)
	l, key, ctx := x.limiter(e.Table), keyOf(e.Key), context.Background()
	var d weir.Decision
	switch e.Op {
	case reset:
		_, err = l.Reset(ctx, key, l.Compiled().LimitNames()...)
	case refund:
		calls := []engine.Call{{Rules: l.Compiled(), Key: key, Op: engine.Refund, From: engine.Oldest, N: e.N}}
		x.engine.Do(ctx, calls)
		e.N, err = calls[0].Result.Granted, calls[0].Err
	case block:
		_, err = l.Block(ctx, key, time.Duration(e.N)*time.Microsecond)
	case reserve, extend, settle:
		return x.onReservation(l.Compiled(), e)
	case wait:
		d, err = l.Decide(ctx, key, weir.Request{N: e.N, MaxWait: weir.Never})
	case record:
		d, err = l.Record(ctx, key, e.N)
	case once:
		d, err = l.AllowOnce(ctx, key, e.N, strconv.FormatUint(e.ID, 10))
	default:
		d, err = l.AllowN(ctx, key, e.N)
	}
	if err != nil {
		return err
	}
	if e.Kind, e.Used = acked, d.Granted; !d.At.IsZero() {
		e.At = d.At.UnixMicro()
	}
	if d.StartAfter > 0 {
		e.Start = d.At.Add(d.StartAfter).UnixMicro()
	}
	x.journal.write(e)
	return nil
}

// onReservation makes a call on the caller's reservation.
func (x *caller) onReservation(rules *engine.Compiled, e event) error {
	var found engine.Reservation
	calls := []engine.Call{{
		Rules:       rules,
		Key:         keyOf(e.Key),
		ID:          strconv.FormatUint(e.ID, 36),
		N:           e.N,
		From:        e.From,
		Reservation: &found,
	}}
	switch c := &calls[0]; e.Op {
	case reserve:
		c.TTL = (24 * time.Hour).Microseconds()
	case extend:
		c.Op = engine.Extend
	case settle:
		c.Op = engine.Settle
	}
	x.engine.Do(context.Background(), calls)
	if x.failed = e; calls[0].Err != nil {
		return calls[0].Err
	}
	x.failed, x.open = event{}, reserved{}
	if !found.Settled {
		x.open = reserved{e.ID, found.Units}
	}
	e.Kind, e.At = acked, calls[0].Result.At.UnixMicro()
	e.Used, e.Settled = found.Units, found.Settled
	e.Replayed = calls[0].Result.Replayed
	x.journal.write(e)
	return nil
}

// repeat repeats the caller's operations of the life before.
func (x *caller) repeat(all []event) error {
	for _, e := range all {
		again := x.again
		if e.Table == holdTable {
			again = x.operate
		}
		if e.Caller != x.index {
			continue
		}
		if err := again(e); err != nil {
			return err
		}
	}
	return nil
}

// again repeats an operation of an earlier life with its idempotency key. An acknowledged
// one has its instant; one that was in flight has none. Used reports whether it was
// replayed.
func (x *caller) again(e event) error {
	e.Kind = called
	if e.At == 0 {
		x.journal.write(e)
	}
	d, err := x.limiter(e.Table).AllowOnce(context.Background(), keyOf(e.Key), e.N, strconv.FormatUint(e.ID, 10))
	if err != nil {
		return err
	}
	if e.At != 0 {
		if !d.Replayed || d.At.UnixMicro() != e.At {
			e.Kind = fault
			x.journal.write(e)
		}
		return nil
	}
	e.Kind, e.At = repeated, d.At.UnixMicro()
	if d.Replayed {
		e.Used = 1
	}
	x.journal.write(e)
	return nil
}

// event is one line of a child's journal. The child writes an event before each operation and
// after each answer. The journal is a pipe: an event is in the parent's hands when write
// returns, so a kill loses none.
type event struct {
	Kind   eventKind
	Op     op
	Caller uint16
	Table  uint16 // index in policies
	Key    uint32 // index of the key
	N      int64  // units; of a refund, those that it took; of a block, microseconds
	At     int64  // instant of the decision, microseconds
	Used   int64  // state: the units that count; an answer: those granted, or those of the reservation
	ID     uint64 // number of the idempotency key or of the reservation, 0 = none
	From   int64  // extend: the units of the reservation before

	Held    int64 // state: the units that are held
	Ahead   int64 // state: the units of appointments
	Start   int64 // state: the instant of the last appointment; an answer: that of its own; 0 = none
	Blocked bool  // state: a block runs

	Settled  bool // the answer of a call on a reservation: it is settled
	Replayed bool // the call was made before
}

type eventKind uint8

const (
	called   eventKind = 1 + iota // the operation is about to be made
	acked                         // the operation was acknowledged
	state                         // the state of a key after the start of a life
	ready                         // the engine is open
	repeated                      // an operation of an earlier life, in flight at its kill, was repeated
	fault                         // an acknowledged idempotency key is not remembered
)

// op is an operation of a caller.
type op uint8

const (
	attempt op = 1 + iota
	record
	refund
	reset
	once
	reserve // an attempt that opens a reservation
	extend  // a reservation, by N units
	settle  // a reservation, with N units
	block   // for N microseconds; 0 ends it
	wait    // an attempt that waits
)

// pipe is the journal in the child.
type pipe struct{ f *os.File }

// write adds an event. A write of less than PIPE_BUF bytes is atomic.
func (p pipe) write(e event) {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, &e)
	if _, err := p.f.Write(b.Bytes()); err != nil {
		os.Exit(3) // the parent is gone
	}
}

// readJournal reads events until the child has ended. It closes began at the event ready.
func readJournal(r io.Reader, began chan<- struct{}) (events []event) {
	text := bufio.NewReader(r)
	for {
		var e event
		if binary.Read(text, binary.LittleEndian, &e) != nil {
			return events
		}
		if e.Kind == ready {
			close(began)
		}
		events = append(events, e)
	}
}

// kills is the number of kills of TestKills.
var kills = flag.Int("weirdisk.kills", 30, "the `number` of kills; make kills makes 1,000")

// TestKills: 64 callers decide, and the process is killed at a random instant, also while
// it starts. No window holds more than Max acknowledged grants over all lives, and no
// acknowledged change is missing, in any mode: a kill loses no write that the operating
// system has.
func TestKills(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	l, seed := killed(t, *kills, childConfig{Dir: t.TempDir()})
	for _, problem := range l.problems {
		t.Error(problem)
	}
	t.Logf("seed %d: %d kills, %d acknowledged operations", seed, l.lives, l.acked)
	if l.acked < *kills*enoughAcked {
		t.Errorf("%d acknowledged operations in %d lives are too few to test anything", l.acked, l.lives)
	}
}

// TestKillsFindAWrongEngine: the audit of TestKills finds an engine that answers before it
// writes. It ends with the first problem; on a busy machine many lives end before an answer.
func TestKillsFindAWrongEngine(t *testing.T) {
	l, seed := killed(t, 100, childConfig{Dir: t.TempDir(), AnswerFirst: true})
	if len(l.problems) == 0 {
		t.Fatalf("seed %d: %d kills and %d acknowledged operations without a problem", seed, l.lives, l.acked)
	}
	t.Logf("found: %s", l.problems[0])
}

// enoughAcked is the number of acknowledged operations a kill that test something.
const enoughAcked = 10

// killed adds up the lives of a directory. The last life only reads the state. On a busy
// machine many lives end before an answer. Then there are up to ten times as many of them.
func killed(t *testing.T, kills int, c childConfig) (l *ledger, seed uint64) {
	t.Helper()
	seed = rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	l = newLedger()
	for i := 0; ; i++ {
		last := i >= kills && l.acked >= enoughAcked*kills || i >= 10*kills
		c.Mode = []string{"100ms", "always"}[i%2]
		c.Repeat = l.repeatable()
		span := time.Duration(r.Int64N(int64(100 * time.Millisecond)))
		if i%16 == 15 {
			span += time.Second // for a whole snapshot; otherwise each life begins with a longer log
		}
		// Every fourth life may end while it opens. The last one must not: it writes the state.
		events, err := life(t, c, span, i%4 > 0 || last)
		l.lives++
		for i := range events {
			l.add(&events[i], true)
		}
		if err != nil {
			l.errorf("%v", err)
		}
		if len(l.problems) > 0 || last {
			break
		}
	}
	l.audit()
	return l, seed
}
