package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/answer"
)

// screen prints the pages of weir top.
type screen struct {
	out       io.Writer
	o         *topOptions
	terminal  bool
	drawn     bool
	rows      func() int // of the terminal; 0 = unknown
	downSince time.Time  // of the first request without an answer; zero while weir answers
}

func newScreen(out io.Writer, o *topOptions) *screen {
	s := &screen{out: out, o: o}
	if f, ok := out.(*os.File); ok && !o.once && !o.asJSON {
		s.terminal = term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
		s.rows = func() int {
			_, rows, _ := term.GetSize(int(f.Fd())) // read each time, because windows change
			return rows
		}
	}
	return s
}

// Control sequences, all of which the VT100 has.
const (
	home      = "\x1b[H"   // the cursor to the upper left
	clearRest = "\x1b[J"   // of the screen
	noWrap    = "\x1b[?7l" // cut lines that are too long
	wrap      = "\x1b[?7h"
)

// show prints an answer; on a terminal it replaces the page before. last is the
// answer before, or nil.
func (s *screen) show(now, last *topAnswer) error {
	if s.o.asJSON {
		_, err := s.out.Write(now.body)
		return err
	}
	s.downSince = time.Time{}
	return s.draw(now.page(last))
}

// waitsFor reports whether top goes on after a request without an answer: only on a
// terminal, if weir has answered before. It then prints a line above the last page.
func (s *screen) waitsFor(last *topAnswer, err error) bool {
	var f *failure
	if last == nil || !s.terminal || s.o.once || !errors.As(err, &f) || f.code != exitStore {
		return false
	}
	if s.downSince.IsZero() {
		s.downSince = time.Now()
	}
	_, rest, _ := strings.Cut(last.page(nil), "\n")
	return s.draw(fmt.Sprintf("weir at %s has not answered since %s; trying again every %v\n%s",
		answer.Shown(last.from), s.downSince.Format(time.TimeOnly), s.o.interval, rest)) == nil
}

// draw prints a page. On a terminal it replaces the page before, cut to the rows of
// the terminal.
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

// firstLines returns the first most lines of a page, at least one. If most is below
// 0 it returns the page.
func firstLines(page string, most int) string {
	if most < 0 {
		return page
	}
	lines := strings.SplitAfter(page, "\n")
	return strings.Join(lines[:min(max(most, 1), len(lines))], "")
}

// clearLines clears the rest of each line, where an earlier page may have been longer.
func clearLines(page string) string { return strings.ReplaceAll(page, "\n", "\x1b[K\n") }

// restore resets the modes of the terminal.
func (s *screen) restore() {
	if s.terminal && s.drawn {
		io.WriteString(s.out, wrap)
		s.drawn = false
	}
}

// maxPolicies is the number of policies on a page of weir top, the busiest.
const maxPolicies = 8

// page returns an answer for people. last is the answer before, for rates, or nil.
func (a *topAnswer) page(last *topAnswer) string {
	var b strings.Builder
	b.WriteString(a.title() + "\n\n")
	writeTable(&b, "lrrrrrr", a.policyRows(last))
	switch {
	case a.Keys == "off":
		b.WriteString("\nkeys are not kept (weir serve --top-keys off)\n")
	case len(a.Top) == 0:
		b.WriteString("\nno key was denied in the last ten minutes\n")
	default:
		b.WriteString("\n")
		writeTable(&b, "rrll", a.keyRows())
	}
	return b.String()
}

func (a *topAnswer) title() string {
	title := "weir at " + answer.Shown(a.from) + ", " + a.at.Local().Format(time.TimeOnly)
	if !a.since.IsZero() {
		title += ", keys since " + a.since.Local().Format(time.TimeOnly)
	}
	if a.Keys == "hashed" {
		title += ", as hashes"
	}
	return title
}

// policyRows returns rows of the busiest policies, by denials.
func (a *topAnswer) policyRows(last *topAnswer) [][]string {
	rows := [][]string{{"POLICY", "ALLOWED", "/S", "DENIED", "/S", "WOULD DENY", "ERRORS"}}
	before := map[string]httpapi.PolicyCalls{}
	var d time.Duration
	if last != nil {
		d = a.when.Sub(last.when)
		for _, c := range last.Policies {
			before[c.Policy] = c
		}
	}
	busiest := slices.SortedStableFunc(slices.Values(a.Policies), func(a, b httpapi.PolicyCalls) int {
		return cmp.Or(cmp.Compare(b.Denied+b.WouldDeny, a.Denied+a.WouldDeny), cmp.Compare(b.Allowed, a.Allowed))
	})
	for _, c := range busiest[:min(maxPolicies, len(busiest))] {
		old := before[c.Policy]
		rows = append(rows, []string{answer.Shown(c.Policy),
			number(c.Allowed), perSecond(c.Allowed, old.Allowed, d), number(c.Denied), perSecond(c.Denied, old.Denied, d),
			number(c.WouldDeny), number(c.Errors)})
	}
	return rows
}

// perSecond returns the rate of a counter between two answers.
func perSecond(now, last int64, d time.Duration) string {
	if d <= 0 || now < last {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(now-last)/d.Seconds())
}

// keyRows returns rows of the keys denied most.
func (a *topAnswer) keyRows() [][]string {
	rows := [][]string{{"DENIALS", "±", "POLICY", "KEY"}}
	for _, e := range a.Top {
		var key []string
		for _, name := range slices.Sorted(maps.Keys(e.Key)) {
			key = append(key, answer.Shown(name)+"="+answer.Shown(e.Key[name]))
		}
		if e.Clipped {
			key = append(key, "…")
		}
		policy := answer.Shown(e.Policy)
		if e.Rule != "" {
			policy += ": " + answer.Shown(e.Rule)
		}
		rows = append(rows, []string{number(e.Denials), number(e.Error), policy, cmp.Or(strings.Join(key, " "), "(all callers)")})
	}
	return rows
}
