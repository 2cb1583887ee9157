package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/gcra"
	"github.com/weirlimit/weir/internal/store"
	"github.com/weirlimit/weir/policy"
)

// storeFlag adds --store.
func storeFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "store", "memory",
		"where histories live: memory (of this process, gone when it ends) or a `URL`: redis://host:port, redis+sentinel://…, redis+cluster://…, rediss://… for TLS")
}

// openStore opens the store a user named; it must be there.
func openStore(name string) (*store.Store, error) {
	s, err := store.Open(name)
	return s, storeFailure(err)
}

// outageOptions are the flags of what serve does about a store that is slow or gone.
type outageOptions struct {
	instances int
	budget    time.Duration
	memory    size
}

func (o *outageOptions) addFlags(cmd *cobra.Command) {
	o.memoryFlag(cmd)
	cmd.Flags().IntVar(&o.instances, "instances", 1,
		"how many `N` weir serve share the store at most; with when-store-is-down: local each grants Max/N while it is out")
	cmd.Flags().DurationVar(&o.budget, "store-budget", 50*time.Millisecond,
		"how long a decision waits for the store before when-store-is-down applies; a `DURATION` such as 50ms")
}

// memoryFlag adds --max-memory.
func (o *outageOptions) memoryFlag(cmd *cobra.Command) {
	cmd.Flags().Var(&o.memory, "max-memory",
		"with --store memory, the most that histories may take, a `SIZE` such as 512MiB, of which --resp-listen leaves an eighth to CL.THROTTLE; at it new keys are answered with an error, and none that counts is forgotten; default: no bound, and 256MiB for CL.THROTTLE")
}

// throttleTable returns the table of CL.THROTTLE in memory. It takes an eighth of
// --max-memory, so that both together stay within it.
func (o *outageOptions) throttleTable() *gcra.Table {
	if o.memory == 0 {
		return gcra.NewTable(gcra.DefaultBytes)
	}
	share := o.memory / 8
	o.memory -= share
	return gcra.NewTable(int64(share))
}

func (o *outageOptions) check(name string) error {
	switch {
	case o.instances < 1:
		return usage("it is the largest number of weir serve that run at any time, such as 4", "--instances must be 1 or more, not %d", o.instances)
	case o.memory > 0 && name != "memory":
		return usage("Redis has maxmemory for that; leave one of them out", "--max-memory is for --store memory, not for one that is shared")
	case o.budget <= 0:
		return usage("it is how long callers can wait, such as 50ms", "--store-budget must be above 0, not %v", o.budget)
	}
	return nil
}

// firstLook is how long serve waits to see what the store is before it says that it
// listens. Its addresses are open meanwhile, so nobody is turned away.
const firstLook = 500 * time.Millisecond

// A laterStore is the store of serve, which starts whether it is there or not.
type laterStore struct {
	*store.Store
	engine  weir.Engine
	log     *slog.Logger
	serving chan struct{} // closed when serve has begun; nothing is logged before
	over    chan struct{} // closed when it has ended

	outages sparse // bounds what turned says
	told    bool   // it has said that the store is down
}

// awaitStore begins to look for the store.
func awaitStore(name string, o outageOptions, log *slog.Logger) (*laterStore, error) {
	l := &laterStore{log: log, outages: sparse{every: 10 * time.Second}, serving: make(chan struct{}), over: make(chan struct{})}
	var err error
	if l.Store, err = store.Later(name, l.hear); err != nil {
		return nil, storeFailure(err)
	}
	if !l.Shared && o.memory > 0 {
		l.Engine = weir.NewMemory(weir.MaxBytes(int64(o.memory)))
	}
	if l.engine = l.Engine; l.Shared {
		// Within the budget, by what each policy says of when-store-is-down.
		l.engine = fallback.New(l.Engine, fallback.FailClosed, fallback.Timeout(o.budget), fallback.Instances(o.instances), fallback.OnStoreState(l.turned))
	}
	return l, nil
}

// look refuses a store that is there and is the wrong one. One that is not there is
// waited for while serving.
func (l *laterStore) look() error {
	ctx, cancel := context.WithTimeout(context.Background(), firstLook)
	defer cancel()
	return l.wrong(ctx)
}

// wrong says why the store is the wrong one, as far as the first attempt to reach it
// has shown when ctx ends.
func (l *laterStore) wrong(ctx context.Context) error {
	if err := l.Ready(ctx); !errors.Is(err, store.ErrUnreachable) {
		return storeFailure(err)
	}
	return nil
}

// watched returns a context that also ends when the first attempt, which may take
// longer than the first look, has found the wrong store: that is the context's cause.
func (l *laterStore) watched(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		if err := l.wrong(ctx); err != nil {
			end(err)
		}
	}()
	return ctx
}

// hear logs what becomes of the search.
func (l *laterStore) hear(err error, warnings []string) {
	select {
	case <-l.serving:
	case <-l.over:
		return
	}
	if err != nil {
		l.log.Error("the store cannot be used; decisions follow when-store-is-down, and it is tried again", "why", err)
		return
	}
	l.log.Info("the store is there")
	for _, warning := range warnings {
		l.log.Warn(warning)
	}
}

// turned logs that a store which was found is down, or up again; of one that comes
// and goes, once in ten seconds. Its calls come one at a time.
func (l *laterStore) turned(to fallback.StoreState, cause error) {
	if l.Down() != nil {
		return // hear says why
	}
	if to == fallback.StoreUp {
		if l.told {
			l.log.Info("the store is up")
		}
		return
	}
	var unsaid int
	if unsaid, l.told = l.outages.now(time.Now()); l.told {
		l.log.Error("the store is down; decisions follow when-store-is-down", "why", cause, "unsaid", unsaid)
	}
}

// Close ends the search and gives connections back.
func (l *laterStore) Close() error {
	close(l.over)
	return l.Store.Close()
}

// storeFailure gives what is wrong with a store its exit code.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrURL):
		return usage("weir serve -h shows what --store takes", "%w", err)
	}
	return &failure{code: exitStore, err: err}
}

// noteShares tells who did not say how many servers there are what follows.
func noteShares(stderr io.Writer, file *policy.File) {
	var local []string
	for _, p := range file.Policies {
		if p.WhenStoreIsDown == fallback.Local {
			local = append(local, p.Name)
		}
	}
	if len(local) > 0 {
		fmt.Fprintf(stderr, "weir: note: while the store is out, this server grants the whole limit of %s (when-store-is-down: local);"+
			" with --instances N it grants Max/N\n", listed(local))
	}
}
