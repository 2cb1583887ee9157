package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir/accesslog"
	"github.com/weirlimit/weir/internal/answer"
	"golang.org/x/term"
)

// progress shows the progress of reading logs in one line of a terminal.
type progress struct {
	out   io.Writer
	width func() int // of the terminal; 0 = unknown
	start time.Time
	next  time.Time // when the line is drawn again
	drawn bool
	ended bool
}

const (
	progressDelay = time.Second // before the line appears
	progressEvery = 200 * time.Millisecond
	clearLine     = "\r\x1b[K"
)

// newProgress returns a line that begins now. It shows nothing unless out is a terminal.
func newProgress(out io.Writer) *progress {
	if p, ok := out.(printable); ok {
		out = p.to
	}
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return &progress{ended: true}
	}
	now := time.Now()
	return &progress{out: f, start: now, next: now.Add(progressDelay), width: func() int {
		columns, _, _ := term.GetSize(int(f.Fd()))
		return columns
	}}
}

// update draws the line if it is due.
func (p *progress) update(read accesslog.Progress) {
	if p.ended {
		return
	}
	if now := time.Now(); !now.Before(p.next) {
		p.next, p.drawn = now.Add(progressEvery), true
		io.WriteString(p.out, clearLine+progressText(read, now.Sub(p.start), p.width()))
	}
}

// end clears the line for good.
func (p *progress) end() {
	if p.drawn {
		io.WriteString(p.out, clearLine)
	}
	p.drawn, p.ended = false, true
}

// progressText returns a line below a number of columns, 0 for any.
func progressText(read accesslog.Progress, elapsed time.Duration, columns int) string {
	text := counted(read.Lines, "line", "lines")
	if seconds := elapsed.Seconds(); seconds > 0 {
		text += fmt.Sprintf(", %.0f lines/s", float64(read.Lines)/seconds)
	}
	if read.Total > 0 && read.Bytes > 0 {
		share := min(1, float64(read.Bytes)/float64(read.Total))
		left := time.Duration(float64(elapsed) * (1 - share) / share).Round(time.Second)
		text += ", " + answer.Exactly(left) + " left"
		head := fmt.Sprintf("%3.0f %% ", 100*share)
		const most = 30
		if size := min(most, columns-len(head)-len(text)-3); columns == 0 || size >= 5 {
			if columns == 0 {
				size = most
			}
			done := int(share * float64(size))
			head += strings.Repeat("█", done) + strings.Repeat("·", size-done) + "  "
		}
		text = head + text
	}
	if columns > 0 && utf8.RuneCountInString(text) >= columns {
		text = string([]rune(text)[:columns-1])
	}
	return text
}
