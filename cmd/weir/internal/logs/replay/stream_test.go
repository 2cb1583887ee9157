package replay

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

const (
	peekLine   = `{"at_us":1,"policy":"push","key":{"teacher":"42"},"op":"peek"}`
	peekAnswer = `{"at_us":1,"allowed":true,"granted":1,"remaining":10,"retry_after_us":0,"reset_after_us":0,"limit":""}` + "\n"
)

func TestLineEndings(t *testing.T) {
	tooLongAt := func(line string) string {
		return `{"error":"line ` + line + `: the line is longer than 65536 bytes; write one object per line"}` + "\n"
	}
	padded := func(size int) string { return peekLine + strings.Repeat(" ", size-len(peekLine)) }
	for _, c := range []struct{ name, trace, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n\r\n \t \n", ""},
		{"LF", peekLine + "\n" + peekLine + "\n", peekAnswer + peekAnswer},
		{"no LF at the end", peekLine + "\n" + peekLine, peekAnswer + peekAnswer},
		{"CR LF", peekLine + "\r\n\r\n" + peekLine + "\r\n", peekAnswer + peekAnswer},
		{"blank lines count", "\n\nx\n", `{"error":"line 3: byte 1: a line must be an object: invalid character 'x' at start of value; write JSON as in RFC 8259, in UTF-8"}` + "\n"},
		{"a line of 64 KiB", padded(MaxLineBytes) + "\r\n" + peekLine, peekAnswer + peekAnswer},
		{"one byte more", padded(MaxLineBytes+1) + "\n" + peekLine, tooLongAt("1") + peekAnswer},
		{"one byte more at the end", peekLine + "\n" + padded(MaxLineBytes+1), peekAnswer + tooLongAt("2")},
		{"longer than the buffer", peekLine + "\n" + padded(3*readBytes) + "\n" + peekLine, peekAnswer + tooLongAt("2") + peekAnswer},
		{"longer than the buffer, at the end", padded(3 * readBytes), tooLongAt("1")},
		{"a long blank line", strings.Repeat(" ", MaxLineBytes+1) + "\n", tooLongAt("1")},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.trace), iotest.HalfReader(strings.NewReader(c.trace))} {
			var out strings.Builder
			if _, err := newRunner(t, weir.NewMemory()).Run(in, &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("%s: got\n%swant\n%s", c.name, out.String(), c.want)
			}
		}
	}
}

// A program that writes lines one by one gets each answer before its next line.
func TestAnswersComeBeforeTheNextLine(t *testing.T) {
	traceRead, trace := io.Pipe()
	answersRead, answers := io.Pipe()
	r := newRunner(t, weir.NewMemory())
	done := make(chan error)
	go func() {
		_, err := r.Run(traceRead, answers)
		done <- err
	}()
	lines := bufio.NewReader(answersRead)
	for range 3 {
		io.WriteString(trace, peekLine+"\n")
		if got, err := lines.ReadString('\n'); err != nil || got != peekAnswer {
			t.Fatalf("got %q, %v; want %q", got, err, peekAnswer)
		}
	}
	trace.Close()
	must.Do(t, <-done)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestRunReturnsErrorsOfItsStreams(t *testing.T) {
	full, torn := errors.New("disk full"), errors.New("torn")
	r := func() *Runner { return newRunner(t, weir.NewMemory()) }
	if _, err := r().Run(strings.NewReader(peekLine), failing{full}); err != full {
		t.Errorf("writing fails: got %v", err)
	}
	many := strings.Repeat(peekLine+"\n", writeBytes/len(peekLine)+1)
	if summary, err := r().Run(strings.NewReader(many), failing{full}); err != full || summary.Lines > writeBytes/int64(len(peekLine)) {
		t.Errorf("writing fails in the middle: got %v after %d lines", err, summary.Lines)
	}
	var out strings.Builder
	in := io.MultiReader(strings.NewReader(peekLine+"\n"+peekLine), iotest.ErrReader(torn))
	if summary, err := r().Run(in, &out); err != torn || out.String() != peekAnswer || summary.Lines != 1 {
		t.Errorf("reading fails within line 2: got %v, %q and %+v; want the answer to line 1", err, out.String(), summary)
	}
}
