package audit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/shorten"
)

// Program is a program that answers lines. Each request is a line on its stdin with the number of
// the request, from 1 on. The answer is a line on its stdout: allow or deny. There is one request
// at a time, so an answer needs no number.
type Program struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string   // lines of stdout; closed at its end
	stop    chan struct{} // closed: lines are dropped
	asked   int
	timeout time.Duration // for one answer
}

// StartProgram starts a program with arguments. Its stderr goes to stderr. The error is a *Problem.
func StartProgram(args []string, stderr io.Writer, window time.Duration) (*Program, error) {
	p := &Program{
		cmd:     exec.Command(args[0], args[1:]...),
		lines:   make(chan string, 1),
		stop:    make(chan struct{}),
		timeout: max(2*window, 10*time.Second), // programs may load slowly
	}
	p.cmd.Stderr = stderr
	p.cmd.WaitDelay = endTimeout
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, &Problem{
			Reason: fmt.Sprintf("does not start: %v", err),
			Next:   "write the program and its arguments behind --",
		}
	}
	p.in = in
	go p.readLines(out)
	return p, nil
}

// endTimeout is the time that a program has to end after the end of its stdin.
const endTimeout = 2 * time.Second

func (p *Program) readLines(out io.Reader) {
	defer close(p.lines)
	for lines := bufio.NewScanner(out); lines.Scan(); { // a line of 64 KiB is no answer: it ends
		select {
		case p.lines <- strings.TrimSpace(lines.Text()):
		case <-p.stop:
			return
		}
	}
}

// Callers returns 1: a program answers one line after the other.
func (p *Program) Callers() int { return 1 }

// Ask writes a line and reads the answer.
func (p *Program) Ask(ctx context.Context) (Answer, error) {
	select {
	case line, ok := <-p.lines:
		if ok {
			return Answer{}, p.wrongLine(fmt.Sprintf("writes %s without a request",
				shorten.Quoted(line)))
		}
		return Answer{}, p.ended(ctx)
	default:
	}
	p.asked++
	if _, err := fmt.Fprintln(p.in, p.asked); err != nil {
		return Answer{}, p.ended(ctx)
	}
	timeout := time.NewTimer(p.timeout)
	defer timeout.Stop()
	select {
	case line, ok := <-p.lines:
		switch {
		case !ok:
			return Answer{}, p.ended(ctx)
		case line == "allow" || line == "deny":
			return Answer{Allowed: line == "allow", Word: line}, nil
		}
		return Answer{}, p.wrongLine(fmt.Sprintf("answers line %d with %s",
			p.asked, shorten.Quoted(line)))
	case <-timeout.C:
		return Answer{}, &Problem{
			Reason: fmt.Sprintf("does not answer line %d within %s",
				p.asked, duration.Format(p.timeout)),
			Next: "does it flush its stdout after each line?",
			Away: true,
			Ends: true,
		}
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

func (p *Program) wrongLine(reason string) *Problem {
	return &Problem{
		Reason: reason,
		Next: "for each line of stdin it must write one line, allow or deny, " +
			"and nothing else to stdout",
		Ends: true,
		Void: true,
	}
}

// ended returns the problem of a program that has ended. Ctrl-C ends a program of the same
// terminal, and that is no problem.
func (p *Program) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
	}
	p.Close()
	reason := fmt.Sprintf("ended at line %d with %v", p.asked, p.cmd.ProcessState)
	return &Problem{
		Reason: reason,
		Next:   "it must answer lines until its stdin ends; its stderr may have the reason",
		Away:   true,
		Ends:   true,
	}
}

// Close ends the program: it closes its stdin, and kills it if that does not suffice.
func (p *Program) Close() {
	if p.cmd.ProcessState != nil {
		return
	}
	close(p.stop)
	p.in.Close()
	kill := time.AfterFunc(endTimeout, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	p.cmd.Wait()
}
