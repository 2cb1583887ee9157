package conformance

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parseVectors reads a file of vectors, separated by blank lines. An unknown word is an
// error with file and line.
//
//	# R3: An entry counts for exactly one window.
//	limit a max=2 window=10m
//	@0s             take 1 -> allowed granted=1 remaining=1 wait=0s reset=10m
//
// The first line is a comment that names the rule. The other lines are:
//
//	epoch MICROSECONDS                  the instant of @0s, else 1700000000000000
//	policy NAME [mode=all|partial|denied]
//	limit NAME max=N window=D [interval=D] [cells=N] [cost=N] [kind=rolling|fixed|fixed_from_first|bucket|concurrency]
//	      [burst=N] [period=none|hour|day|week|month] [zone=NAME] [anchor=N] [block=D] [by=DIM,DIM]     (in one line)
//	@D take|peek|record|probe N [#ID] [DIM=VALUE…]  -> allowed|denied granted=N remaining=N wait=D|never reset=D [limit=NAME] [blocked=D] [at=D] [replayed]
//	  NAME: used=N remaining=N wait=D|never next=D interval=D reset=D [blocked=D] [ahead=N last=D]    (the state of each limit, or of none)
//	@D take N maxwait=D|never [ttl=D #ID] [DIM=VALUE…]  -> …, and if it starts later: start=D
//	@D take N ttl=D #ID [DIM=VALUE…]  -> …, and if it opened a reservation: units=N expires=D [held=D] [settled=N]
//	@D settle N|all #ID [DIM=VALUE…]  -> refunded=N [at=D] units=N expires=D [held=D] settled=N [replayed]
//	@D extend 0 #ID [DIM=VALUE…]  -> extended [at=D] units=N expires=D [held=D]
//	@D extend N [from=N] #ID [DIM=VALUE…]  -> as of a take, with the reservation
//	@D block D [limit=NAME,NAME] [DIM=VALUE…]  -> blocked=D [at=D]
//	@D refund N from=D|oldest [#ID] [DIM=VALUE…]  -> refunded=N
//	@D count LIMIT last=D [DIM=VALUE…]  -> count=N
//	@D reset [limit=NAME,NAME] [DIM=VALUE…]  -> reset=NAME,NAME
//	change mode=M | change NAME field=value… | change order NAME…
//	use POLICY
//
// Any answer may be error=units|key|instant|limit|span|kind|id|wait|overflow|full|settled|expired instead.
// #ID is an idempotency key, and the id of the reservation that an attempt with a ttl opens.
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

var ruleComment = regexp.MustCompile(`^# (R(?:[1-9]|1[0-9]|20)(?:, R(?:[1-9]|1[0-9]|20))*: .+)$`)

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

// parser holds a partly read vector.
type parser struct {
	policies // those of v after the steps so far
	v        *vector
	note     []string
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
		return p.request(words)
	}
	switch words[0] {
	case "epoch", "policy", "limit":
		return p.declare(text, words)
	case opChange, opUse:
		return p.apply(step{op: words[0], words: words[1:]})
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
		b := &mutablePolicy{name: words[1]}
		p.v.policies = append(p.v.policies, b)
		return readAll(words[2:], nil, b.fields())
	case words[0] == "limit":
		if len(p.v.policies) == 0 {
			p.v.policies = []*mutablePolicy{{name: "p"}}
		}
		return p.v.policies[len(p.v.policies)-1].declare(words[1:])
	}
	return fmt.Errorf("too few or too many words after %q", words[0])
}

// begin checks the policies and selects the first, before the first step.
func (p *parser) begin() error {
	switch {
	case p.current != nil:
		return nil
	case p.v.policies == nil:
		return fmt.Errorf("a step before any limit")
	}
	for _, b := range p.v.policies {
		if _, err := b.policy("").Compile(); err != nil {
			return err
		}
	}
	p.policies = newPolicies(p.v)
	return nil
}

// apply reads a change or use line and checks the resulting policy.
func (p *parser) apply(s step) error {
	err := p.begin()
	if err == nil {
		err = p.policies.apply(s)
	}
	if err == nil {
		_, err = p.current.policy("").Compile()
	}
	if err == nil {
		p.push(s)
	}
	return err
}

// push appends a step with the comments before it.
func (p *parser) push(s step) {
	if p.note != nil {
		p.v.notes[len(p.v.steps)] = p.note
		p.note = nil
	}
	p.v.steps = append(p.v.steps, s)
}

// request reads a line that begins with an instant.
func (p *parser) request(words []string) error {
	if err := p.begin(); err != nil {
		return err
	}
	arrow := slices.Index(words, "->")
	if arrow < 0 {
		return fmt.Errorf("no answer; write \"-> ANSWER\" after the request")
	}
	s, err := parseRequest(words[:arrow])
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
		return fmt.Errorf("the state of a limit belongs after take, peek, probe or record")
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

// finish checks that the vector is complete.
func (p *parser) finish() error {
	switch {
	case len(p.v.steps) == 0:
		return fmt.Errorf("a vector without steps")
	case p.note != nil:
		return fmt.Errorf("a comment after the last step; put it before a step")
	}
	return nil
}

// callOps are the operations of steps that are calls.
var callOps = []string{opTake, opPeek, opRecord, opRefund, opCount, opReset, opSettle, opExtend, opBlock, opProbe}

// parseRequest parses the words of @INSTANT OP … before the arrow.
func parseRequest(words []string) (s step, err error) {
	if len(words) < 2 {
		return s, fmt.Errorf("no operation after %s", words[0])
	}
	if s.at, err = time.ParseDuration(words[0][1:]); err != nil {
		return s, err
	}
	s.op = words[1]
	if !slices.Contains(callOps, s.op) {
		return s, fmt.Errorf("unknown word %q; use one of %s", s.op, strings.Join(callOps, ", "))
	}
	rest, err := readFields(words[2:], s.arguments(), s.options())
	if err == nil && s.takesID() && len(rest) > 0 && strings.HasPrefix(rest[0], "#") {
		s.id, err = parseValue(rest[0][1:])
		rest = rest[1:]
	}
	if err == nil {
		s.key, err = parseKey(rest)
	}
	return s, cmp.Or(err, s.checkID())
}

func parseKey(words []string) (key []keyPart, err error) {
	for _, word := range words {
		dim, text, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fmt.Errorf("unknown word %q; a key is DIM=VALUE", word)
		}
		value, err := parseValue(text)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", dim, text, err)
		}
		key = append(key, keyPart{dim, value})
	}
	return key, nil
}

// splitWords splits a line at spaces outside quotes. In a quote a backslash takes the next
// byte with it.
func splitWords(line string) (words []string, err error) {
	line = strings.TrimSpace(line)
	for i := 0; i < len(line); i++ {
		start := i
		for ; i < len(line) && line[i] != ' ' && line[i] != '\t'; i++ {
			if line[i] != '"' {
				continue
			}
			for i++; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' {
					i++
				}
			}
			if i >= len(line) {
				return nil, fmt.Errorf("no end to the quote in %s", line)
			}
		}
		if start < i {
			words = append(words, line[start:i])
		}
	}
	return words, nil
}

// parseValue reads a plain word, a quoted one, or "x"*1025.
func parseValue(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		if text == "" || valueText(text) != text {
			return "", fmt.Errorf("quote the value")
		}
		return text, nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", err
	}
	value, err := strconv.Unquote(quoted)
	if err != nil || quoted == text {
		return value, err
	}
	times, err := strconv.Atoi(strings.TrimPrefix(text[len(quoted):], "*"))
	if err != nil || text[len(quoted)] != '*' || times < 0 || times > 1<<16 {
		return "", fmt.Errorf("after the quote only *TIMES is allowed")
	}
	return strings.Repeat(value, times), nil
}
