// Command worker starts itself several times. The processes send mails under one limit on one
// Redis: ten a second. Each mail waits for its turn with one call of Redis. The first process
// prints the timetable, and fails if a second held more than ten or a later call had an earlier
// turn.
//
//	go run ./examples/worker -store redis://127.0.0.1:6379
//
// REDIS_URL may hold the URL instead, so that no process list shows its password.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// options are the flags.
type options struct {
	store     string
	processes int
	mails     int    // of each process
	from      string // the sender, in a worker process; else ""
	number    int    // of a worker process
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("worker: ", err)
	}
}

func run(args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.StringVar(&o.store, "store", "", "the `URL` of Redis; default: $REDIS_URL, or redis://127.0.0.1:6379")
	f.IntVar(&o.processes, "processes", 4, "`number` of processes that share the limit")
	f.IntVar(&o.mails, "mails", 6, "`number` of mails that each process sends")
	f.StringVar(&o.from, "from", "", "for the processes themselves")
	f.IntVar(&o.number, "number", 0, "for the processes themselves")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.processes < 1 || o.mails < 1 {
		return errors.New("only flags are allowed, with at least one process and one mail; -h lists them")
	}
	o.store = cmp.Or(o.store, os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379")
	store, end, err := open(o.store)
	if err != nil {
		return err
	}
	defer end()
	if o.from != "" {
		return work(&o, store, out)
	}
	return oversee(&o, args, out)
}

// open opens the store.
func open(url string) (store *weirredis.Engine, end func(), err error) {
	client, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, nil, errors.New("the store's URL cannot be read; write redis://host:port")
	}
	conn, err := rueidisconn.New(client)
	if err != nil {
		return nil, nil, err
	}
	if store, err = weirredis.New(conn); err == nil {
		_, err = store.Check(context.Background())
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return store, conn.Close, nil
}

// sent is one mail that was sent.
type sent struct {
	Mail  string
	At    time.Time     // of the call, by the server's clock
	After time.Duration // from At to its turn
}

// turn is the instant from which the mail might be sent.
func (s *sent) turn() time.Time { return s.At.Add(s.After) }

// work sends the mails of one process, and reports them.
func work(o *options, store *weirredis.Engine, out io.Writer) error {
	var all []sent
	mails := make([]string, o.mails)
	for i := range mails {
		mails[i] = fmt.Sprintf("mail %d of process %d", i+1, o.number)
	}
	err := sendMails(context.Background(), store, o.from, mails, func(mail string, turn weir.Decision) error {
		all = append(all, sent{mail, turn.At, turn.StartAfter}) // a real worker talks to its mail server here
		return nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(all)
}

// oversee runs the workers with the same arguments, and prints and checks the timetable.
func oversee(o *options, args []string, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from := "run-" + strconv.FormatInt(time.Now().UnixMicro(), 36) // each run has a history of its own
	fmt.Fprintf(out, "%d processes send %d mails each, at most 10 a second together\n", o.processes, o.mails)
	reports, errs := make([][]sent, o.processes), make([]error, o.processes)
	var workers sync.WaitGroup
	for i := range o.processes {
		workers.Go(func() {
			cmd := exec.Command(self, append([]string{"-from", from, "-number", strconv.Itoa(i + 1)}, args...)...)
			cmd.Stderr = os.Stderr
			text, err := cmd.Output()
			errs[i] = cmp.Or(err, json.Unmarshal(text, &reports[i]))
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("a process did not report; its error stands above: %w", err)
	}
	return printTimetable(slices.Concat(reports...), out)
}

// printTimetable prints the mails in the order of their calls. It fails if a later call had an
// earlier turn, or if any second held more than ten turns.
func printTimetable(all []sent, out io.Writer) error {
	slices.SortFunc(all, func(a, b sent) int {
		return cmp.Or(a.At.Compare(b.At), a.turn().Compare(b.turn()))
	})
	start := all[0].At
	var turns []time.Time
	for i := range all {
		s := &all[i]
		fmt.Fprintf(out, "  called at %5.3fs, waited %5.3fs, sent at %5.3fs: %s\n",
			s.At.Sub(start).Seconds(), s.After.Seconds(), s.turn().Sub(start).Seconds(), s.Mail)
		if i > 0 && s.turn().Before(turns[i-1]) {
			return fmt.Errorf("%s was called later than the one before it, and its turn came sooner", s.Mail)
		}
		turns = append(turns, s.turn())
	}
	for i := range turns {
		if i >= 10 && turns[i].Before(turns[i-10].Add(time.Second)) {
			return fmt.Errorf("more than 10 turns in the second from %v on", turns[i-10].Sub(start))
		}
	}
	fmt.Fprintf(out, "%d mails were sent in the order of their calls, and no second had more than 10\n", len(all))
	return nil
}
