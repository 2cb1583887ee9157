package conformance

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/engine"
)

// mismatch is a step with an answer that breaks the rules.
type mismatch struct {
	v    *vector
	step int
	got  answer
}

// replay applies the steps of v to e and passes each answer to do, until do returns false.
func (v *vector) replay(e engine.Engine, do func(i int, got answer) bool) error {
	s, err := newSession(e, v)
	if err != nil {
		return err
	}
	for i, st := range v.steps {
		if !st.callsEngine() {
			if err := s.apply(st); err != nil {
				return err
			}
		} else if !do(i, s.do(st)) {
			return nil
		}
	}
	return nil
}

// run applies the steps of v to e, up to the first answer that differs from the vector.
// It returns nil if there is none.
func (v *vector) run(e engine.Engine) (m *mismatch, err error) {
	err = v.replay(e, func(i int, got answer) bool {
		if !v.steps[i].want.equal(got) {
			m = &mismatch{v, i, got}
		}
		return m == nil
	})
	return m, err
}

// answers replaces the expected answers of v by those of e.
func (v *vector) answers(e engine.Engine) error {
	return v.replay(e, func(i int, got answer) bool {
		v.steps[i].want = got
		return true
	})
}

// String shows the step, both answers and the rules to read.
func (m *mismatch) String() string {
	var b strings.Builder
	s, epoch := m.v.steps[m.step], m.v.epoch
	fmt.Fprintf(&b, "%s\n    %s\n    got   %s\n    want  %s", m.v.name,
		strings.Join(strings.Fields(s.text()), " "), m.got.text(s, epoch), s.want.text(s, epoch))
	field := m.field()
	if field == "states" {
		for i := range max(len(s.want.states), len(m.got.states)) {
			if got, want := m.got.stateText(i), s.want.stateText(i); got != want {
				fmt.Fprintf(&b, "\n    got state   %s\n    want state  %s", got, want)
			}
		}
	}
	fmt.Fprintf(&b, "\n  The %s differs. Read", strings.TrimSuffix(field, "s"))
	for _, r := range rulesByField[field] {
		fmt.Fprintf(&b, "\n    %s", quoteRule(r))
	}
	return b.String()
}

// field names the first field that differs.
func (m *mismatch) field() string { return m.v.steps[m.step].want.difference(m.got) }
