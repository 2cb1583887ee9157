package conformance

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
)

// mismatch is a step with an answer that breaks the rules.
type mismatch struct {
	v    *vector
	step int
	want answer
	got  answer
}

// run applies the steps of v to e, up to the first answer that differs from the vector.
// It returns nil if there is none.
func (v *vector) run(e weir.Engine) (*mismatch, error) {
	s, err := newSession(e, v)
	if err != nil {
		return nil, err
	}
	for i, st := range v.steps {
		if !st.callsEngine() {
			if err := s.apply(st); err != nil {
				return nil, err
			}
			continue
		}
		if got := s.do(st); !st.want.equal(got) {
			return &mismatch{v: v, step: i, want: st.want, got: got}, nil
		}
	}
	return nil, nil
}

// answers replaces the expected answers of v by those of e.
func (v *vector) answers(e weir.Engine) error {
	s, err := newSession(e, v)
	if err != nil {
		return err
	}
	for i := range v.steps {
		st := &v.steps[i]
		if st.callsEngine() {
			st.want = s.do(*st)
		} else if err := s.apply(*st); err != nil {
			return err
		}
	}
	return nil
}

// String shows the step, both answers and the rules to read.
func (m *mismatch) String() string {
	var b strings.Builder
	s := m.v.steps[m.step]
	fmt.Fprintf(&b, "%s\n    %s\n    got   %s\n    want  %s", m.v.name,
		strings.Join(strings.Fields(s.text()), " "), m.got.text(s, m.v.epoch), m.want.text(s, m.v.epoch))
	field := m.want.difference(m.got)
	if field == "states" {
		b.WriteString(m.stateDifference())
	}
	fmt.Fprintf(&b, "\n  The %s differs. Read", strings.TrimSuffix(field, "s"))
	for _, r := range rulesByField[field] {
		fmt.Fprintf(&b, "\n    %s", quoteRule(r))
	}
	return b.String()
}

// stateDifference shows the states that differ.
func (m *mismatch) stateDifference() string {
	var b strings.Builder
	for i := range max(len(m.want.states), len(m.got.states)) {
		want, got := "nothing", "nothing"
		if i < len(m.want.states) {
			want = stateText(m.want.states[i])
		}
		if i < len(m.got.states) {
			got = stateText(m.got.states[i])
		}
		if want != got {
			fmt.Fprintf(&b, "\n    got state   %s\n    want state  %s", got, want)
		}
	}
	return b.String()
}
