package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/weirlimit/weir/internal/answer"
)

// screen is where weir top writes.
type screen struct {
	out      io.Writer
	o        *topOptions
	terminal bool
	bold     bool
	drawn    bool
	rows     func() int // of the terminal; 0 = nobody knows
	gone     time.Time  // since when weir does not answer; zero while it does
}

func newScreen(out io.Writer, o *topOptions) *screen {
	s := &screen{out: out, o: o}
	if f, ok := out.(*os.File); ok && !o.once && !o.asJSON {
		s.terminal = term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
		s.rows = func() int {
			_, rows, _ := term.GetSize(int(f.Fd())) // asked each time: windows change
			return rows
		}
	}
	_, plain := os.LookupEnv("NO_COLOR")
	s.bold = s.terminal && !plain
	return s
}

// What a terminal is told. All of it is known since the VT100.
const (
	home      = "\x1b[H"   // the cursor to the upper left
	clearRest = "\x1b[J"   // of the screen
	noWrap    = "\x1b[?7l" // lines that are too long are cut
	wrap      = "\x1b[?7h"
	bold      = "\x1b[1m"
	normal    = "\x1b[0m"
)

// show writes what was seen: on a terminal in place of what was there.
func (s *screen) show(now, last *looked) error {
	if s.o.asJSON {
		_, err := s.out.Write(now.body)
		return err
	}
	s.gone = time.Time{}
	return s.draw(now.page(last, s.heading))
}

// lost reports whether a weir that does not answer any more is waited for: only where
// somebody watches. Then it says so above what was seen last.
func (s *screen) lost(last *looked, err error) bool {
	var f *failure
	if last == nil || !s.terminal || s.o.once || !errors.As(err, &f) || f.code != exitStore {
		return false
	}
	if s.gone.IsZero() {
		s.gone = time.Now()
	}
	_, rest, _ := strings.Cut(last.page(nil, s.heading), "\n")
	return s.draw(fmt.Sprintf("weir at %s does not answer since %s; asking again every %v\n%s",
		answer.Shown(last.from), s.gone.Format(time.TimeOnly), s.o.interval, rest)) == nil
}

// draw writes a page: on a terminal in place of what was there, and no more than fits.
func (s *screen) draw(page string) error {
	switch {
	case s.terminal:
		page = home + clearLines(firstLines(page, s.rows()-1)) + clearRest
		if !s.drawn {
			page = noWrap + home + clearRest + page
		}
	case s.drawn:
		page = "\n" + page
	}
	s.drawn = true
	_, err := io.WriteString(s.out, page)
	return err
}

// firstLines are the first most lines of a page, at least one; below 0 all of it.
func firstLines(page string, most int) string {
	if most < 0 {
		return page
	}
	lines := strings.SplitAfter(page, "\n")
	return strings.Join(lines[:min(max(most, 1), len(lines))], "")
}

// leave gives the terminal back as it was.
func (s *screen) leave() {
	if s.terminal && s.drawn {
		io.WriteString(s.out, wrap)
		s.drawn = false
	}
}

func (s *screen) heading(text string) string {
	if s.bold {
		return bold + text + normal
	}
	return text
}
