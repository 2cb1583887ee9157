package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// worker is a started process.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// oversee starts the workers, releases them together, and audits their reports.
func oversee(o *options, out io.Writer) error {
	_, end, err := limiter(o)
	if err != nil {
		return err // once, instead of in every process
	}
	end()
	run := strconv.FormatInt(time.Now().UnixMicro(), 36) // each run has a history of its own
	var workers []*worker
	defer func() {
		for _, w := range workers {
			w.in.Close()
			w.cmd.Wait()
		}
	}()
	for range o.processes {
		w, err := start(o, run)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		if _, err := w.out.ReadString('\n'); err != nil {
			return fmt.Errorf("a process ended before it was ready; its error stands above")
		}
	}
	for _, w := range workers {
		if _, err := io.WriteString(w.in, "go\n"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d processes with %d callers each share %d per %v\n", o.processes, o.callers, o.max, o.window)
	var all report
	for i, w := range workers {
		var r report
		if err := json.NewDecoder(w.out).Decode(&r); err != nil {
			return fmt.Errorf("process %d did not report; its error stands above", i+1)
		}
		fmt.Fprintf(out, "  process %d  %7d attempts, %5d granted\n", i+1, r.Attempts, len(r.Grants))
		all.Attempts += r.Attempts
		all.Grants = append(all.Grants, r.Grants...)
	}
	return audit(o, all, out)
}

// start starts a worker. It writes a line to stdout when it is ready.
func start(o *options, run string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-worker", run, "-callers", strconv.Itoa(o.callers),
		"-max", strconv.FormatInt(o.max, 10), "-window", o.window.String(), "-for", o.length.String())
	cmd.Env = append(os.Environ(), storeVariable+"="+o.store)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{cmd, in, bufio.NewReader(out)}, cmd.Start()
}
