package conformance

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir"
)

// mismatch is a step that an engine answered otherwise than the rules demand.
type mismatch struct {
	v    *vector
	step int
	want answer
	got  answer
}

// run does the steps of v on e, up to the first that is answered otherwise than
// the vector wants. It returns nil when there is none.
func (v *vector) run(e weir.Engine) (*mismatch, error) {
	s, err := newSession(e, v)
	if err != nil {
		return nil, err
	}
	for i, st := range v.steps {
		if !st.asks() {
			if err := s.turn(st); err != nil {
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

// answers replaces what the steps of v want by what e answers.
func (v *vector) answers(e weir.Engine) error {
	s, err := newSession(e, v)
	if err != nil {
		return err
	}
	for i := range v.steps {
		st := &v.steps[i]
		if st.asks() {
			st.want = s.do(*st)
		} else if err := s.turn(*st); err != nil {
			return err
		}
	}
	return nil
}

// String shows the step, both answers and the rules to look at.
func (m *mismatch) String() string {
	var b strings.Builder
	s := m.v.steps[m.step]
	fmt.Fprintf(&b, "%s\n    %s\n    got   %s\n    want  %s", m.v.name,
		strings.Join(strings.Fields(s.text()), " "), m.got.text(s, m.v.epoch), m.want.text(s, m.v.epoch))
	field := m.want.difference(m.got)
	if field == "states" {
		b.WriteString(m.stateDifference())
	}
	fmt.Fprintf(&b, "\n  The %s differs. Look at", strings.TrimSuffix(field, "s"))
	for _, r := range suspects[field] {
		fmt.Fprintf(&b, "\n    %s", bullet(r))
	}
	return b.String()
}

// stateDifference shows the limits whose states differ.
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
