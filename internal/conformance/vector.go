package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// vector is a short history about one rule: policies, then steps with the answers that the
// rule demands.
type vector struct {
	name     string // its first comment: the rule and a sentence
	file     string
	line     int   // number of its first line in file, from 1
	epoch    int64 // the instant of @0s, in microseconds since 1970
	policies []*mutablePolicy
	head     []string // the lines before the first step, as written
	steps    []step
	notes    map[int][]string // comment lines before a step
}

// defaultEpoch is a realistic instant: an engine that prints numbers of this size as
// 1.7e+15 must fail.
const defaultEpoch = 1_700_000_000_000_000

// text formats the vector with its expected answers.
func (v *vector) text() string {
	var b strings.Builder
	for _, line := range v.head {
		fmt.Fprintln(&b, line)
	}
	width := v.width()
	for i, s := range v.steps {
		for _, note := range v.notes[i] {
			fmt.Fprintln(&b, note)
		}
		if !s.callsEngine() {
			fmt.Fprintln(&b, s.text())
			continue
		}
		fmt.Fprintf(&b, "%-*s -> %s\n", width, s.text(), s.want.text(s, v.epoch))
		for i := range s.want.states {
			fmt.Fprintf(&b, "  %s\n", s.want.stateText(i))
		}
	}
	return b.String()
}

// width returns the length of the longest call, so that the arrows form one column. Calls
// of more than 60 bytes are ignored.
func (v *vector) width() int {
	const most = 60
	width := 0
	for _, s := range v.steps {
		if n := len(s.text()); s.callsEngine() && n <= most {
			width = max(width, n)
		}
	}
	return width
}

// changes reports whether the vector changes limits that have histories (R12).
func (v *vector) changes() bool {
	return slices.ContainsFunc(v.steps, func(s step) bool { return s.op == opChange })
}

// write sets the head of v by its policies. Parsed vectors have one already.
func (v *vector) write() {
	v.head = []string{"# " + v.name}
	if v.epoch != defaultEpoch {
		v.head = append(v.head, fmt.Sprintf("epoch %d", v.epoch))
	}
	for _, b := range v.policies {
		v.head = append(v.head, "policy "+b.name+texts(b.fields(), nil))
		for _, limit := range b.limits {
			v.head = append(v.head, limitText(limit))
		}
	}
}
