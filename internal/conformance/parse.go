package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// parseVectors reads a file of vectors, which blank lines separate. The language
// is closed: a word it does not know is an error, with file and line.
//
//	# R3: An entry counts for exactly one window.
//	limit a max=2 window=10m
//	@0s             take 1 -> allowed granted=1 remaining=1 wait=0s reset=10m
//
// The first line is a comment that names the rule. Then:
//
//	epoch MICROSECONDS                  the instant of @0s, else 1700000000000000
//	policy NAME [mode=all|partial|denied]
//	limit NAME max=N window=D [gap=D] [cells=N] [cost=N] [kind=rolling|calendar|first-hit] [by=DIM,DIM]
//	@D take|peek|record N [#ID] [DIM=VALUE…]  -> allowed|denied granted=N remaining=N wait=D|never reset=D [limit=NAME] [at=D] [repeated]
//	  NAME: used=N remaining=N wait=D|never next=D gap=D reset=D    (each limit's state, or none)
//	@D refund N from=D [#ID] [DIM=VALUE…]  -> refunded=N
//	@D count LIMIT last=D [DIM=VALUE…]  -> count=N
//	@D reset [DIM=VALUE…]               -> done
//	change mode=M | change NAME field=value… | change order NAME…
//	use POLICY
//
// Any answer may be error=units|key|instant|limit|span|id|overflow|full instead.
// #ID names the operation: asked again, it is charged once.
// Values are plain words, or quoted as in Go, or "x"*1025 for many of one.
func parseVectors(file, text string) ([]*vector, error) {
	var vectors []*vector
	var block []string
	lines := append(strings.Split(text, "\n"), "")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			block = append(block, line)
			continue
		}
		if len(block) > 0 {
			v, err := parseVector(file, i+1-len(block), block)
			if err != nil {
				return nil, err
			}
			vectors = append(vectors, v)
			block = nil
		}
	}
	return vectors, nil
}

var ruleComment = regexp.MustCompile(`^# (R(?:[1-9]|1[0-5])(?:, R(?:[1-9]|1[0-5]))*: .+)$`)

func parseVector(file string, line int, block []string) (*vector, error) {
	name := ruleComment.FindStringSubmatch(block[0])
	if name == nil {
		return nil, fmt.Errorf("%s:%d: a vector begins with a comment that names its rule, such as \"# R3: …\"", file, line)
	}
	p := parser{v: &vector{name: name[1], file: file, line: line, epoch: defaultEpoch, notes: map[int][]string{}}}
	for i, text := range block {
		if err := p.line(text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, line+i, err)
		}
	}
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return p.v, nil
}

// parser is a vector half read.
type parser struct {
	v    *vector
	now  []*book // v's books as the steps so far left them
	cur  *book   // of now: the one the next step is about
	note []string
}

// line reads one line of the vector.
func (p *parser) line(text string) error {
	if strings.HasPrefix(text, "#") {
		p.note = append(p.note, text)
		return nil
	}
	words, err := splitWords(text)
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(text, "  "):
		return p.state(words)
	case strings.HasPrefix(text, "@"):
		return p.question(words)
	}
	switch words[0] {
	case "epoch", "policy", "limit":
		return p.declare(text, words)
	case opChange, opUse:
		return p.turn(step{op: words[0], words: words[1:]})
	}
	return fmt.Errorf("unknown word %q; a line is a comment, epoch, policy, limit, change, use or @INSTANT …", words[0])
}

// declare reads a line of the head.
func (p *parser) declare(text string, words []string) (err error) {
	if len(p.v.steps) > 0 {
		return fmt.Errorf("%s after the first step; use change", words[0])
	}
	p.v.head = append(append(p.v.head, p.note...), text)
	p.note = nil
	switch {
	case words[0] == "epoch" && len(words) == 2:
		p.v.epoch, err = strconv.ParseInt(words[1], 10, 64)
		return err
	case words[0] == "policy" && (len(words) == 2 || len(words) == 3):
		b := &book{name: words[1]}
		p.v.books = append(p.v.books, b)
		if len(words) == 3 {
			return b.setMode(words[2])
		}
		return nil
	case words[0] == "limit":
		if len(p.v.books) == 0 {
			p.v.books = []*book{{name: "p"}}
		}
		return p.v.books[len(p.v.books)-1].declare(words[1:])
	}
	return fmt.Errorf("too few or too many words behind %q", words[0])
}

// begin checks the policies and opens the first; the steps follow.
func (p *parser) begin() error {
	if p.now != nil {
		return nil
	}
	for _, b := range p.v.books {
		if _, err := b.policy("").Plan(); err != nil {
			return err
		}
		p.now = append(p.now, b.clone())
	}
	if p.now == nil {
		return fmt.Errorf("a step before any limit")
	}
	p.cur = p.now[0]
	return nil
}

// turn reads a change or use line, and checks the policy it leaves.
func (p *parser) turn(s step) error {
	if err := p.begin(); err != nil {
		return err
	}
	if s.op == opUse {
		i := slices.IndexFunc(p.now, func(b *book) bool { return len(s.words) == 1 && b.name == s.words[0] })
		if i < 0 {
			return fmt.Errorf("use %q: no policy has that name", s.words)
		}
		p.cur = p.now[i]
	} else if err := p.cur.change(s.words); err != nil {
		return err
	}
	if _, err := p.cur.policy("").Plan(); err != nil {
		return err
	}
	p.push(s)
	return nil
}

// push appends a step, with the comments in front of it.
func (p *parser) push(s step) {
	if p.note != nil {
		p.v.notes[len(p.v.steps)] = p.note
		p.note = nil
	}
	p.v.steps = append(p.v.steps, s)
}

// question reads a line that begins with an instant.
func (p *parser) question(words []string) error {
	if err := p.begin(); err != nil {
		return err
	}
	arrow := slices.Index(words, "->")
	if arrow < 0 {
		return fmt.Errorf("no answer: behind the question stands \"-> ANSWER\"")
	}
	s, err := parseQuestion(words[:arrow])
	if err != nil {
		return err
	}
	if s.want, err = parseAnswer(s, words[arrow+1:], p.v.epoch); err != nil {
		return err
	}
	p.push(s)
	return nil
}

// state reads an indented line: the state of the next limit after the last step.
func (p *parser) state(words []string) error {
	if len(p.v.steps) == 0 || !p.v.steps[len(p.v.steps)-1].decides() {
		return fmt.Errorf("a limit's state stands behind take, peek or record")
	}
	s := &p.v.steps[len(p.v.steps)-1]
	if s.states = true; words[0] == draft {
		return nil
	}
	state, err := parseState(words)
	if err != nil {
		return err
	}
	s.want.states = append(s.want.states, state)
	return nil
}

// finish checks that the vector is whole.
func (p *parser) finish() error {
	if len(p.v.steps) == 0 {
		return fmt.Errorf("a vector without steps")
	}
	if p.note != nil && len(p.v.steps) > 0 {
		return fmt.Errorf("a comment behind the last step; put it in front of a step")
	}
	return nil
}
