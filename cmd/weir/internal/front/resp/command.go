package resp

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/nearest"
)

// command is one entry of the table of commands.
type command struct {
	name        string
	usage       string
	least, most int  // arguments after the name
	open        bool // answered before authentication
	needs       rights

	// A command is answered by one of these functions. If both are nil it is decided, as an
	// attempt, a peek or a record; the decisions of a pipeline may be made in one call.
	change func(s *Server, out []byte, a arguments) ([]byte, error)
	reply  func(c *session, args []string)
	op     engine.Op
	syntax syntax // the syntax of the arguments, unless reply is set
}

// decides reports whether the command is an attempt, a peek or a record.
func (c *command) decides() bool { return c.change == nil && c.reply == nil }

// runCommand answers a command without reply.
func (c *session) runCommand(cmd *command, args []string) {
	s := c.server
	a, err := s.readArguments(args, cmd, c.pairs[:0])
	defer clear(a.pairs) // its strings point into the text of the session
	c.pairs = a.pairs
	answered := c.out
	if err == nil {
		err = s.config.Capacity.Do(func() (err error) {
			if cmd.decides() {
				o, err := a.policy.Decide(background, &a.Request)
				answered, err = s.appendOutcome(c.out, &a, &o, err)
				return err
			}
			answered, err = cmd.change(s, c.out, a)
			return err
		})
	}
	c.putAnswer(answered, err)
}

// putAnswer keeps an answer to be sent, or that of an error.
func (c *session) putAnswer(answered []byte, err error) {
	if err != nil {
		answered = c.server.fail(c.out, err)
	}
	c.out = answered
}

var (
	commands []command           // all of them
	byName   map[string]*command // by name in capitals
)

// init builds the table. It cannot be an initializer: some commands read the table.
func init() {
	commands = []command{
		{name: "WEIR.POLICIES", usage: "WEIR.POLICIES", reply: listPolicies},
		{
			name:  "WEIR.CHECK",
			usage: "WEIR.CHECK policy dimension=value … [n] [WAIT milliseconds] [ID id]",
			least: 1,
			most:  maxArgs,
			op:    engine.Attempt,
			syntax: syntax{
				numbers: 1,
				options: []string{"LIMITS", "ID", "WAIT"},
			},
		},
		{
			name:  "WEIR.PEEK",
			usage: "WEIR.PEEK policy dimension=value … [n]",
			least: 1,
			most:  maxArgs,
			op:    engine.Peek,
			syntax: syntax{
				numbers: 1,
				options: []string{"LIMITS"},
			},
		},
		{
			name:   "WEIR.COUNT",
			usage:  "WEIR.COUNT policy dimension=value … last_ms [LIMIT name]",
			least:  1,
			most:   maxArgs,
			change: count,
			op:     engine.Count,
			syntax: syntax{
				needs:   countSpan,
				numbers: 1,
				options: []string{"LIMITS", "LIMIT"},
			},
		},
		{
			name:  "WEIR.RECORD",
			usage: "WEIR.RECORD policy dimension=value … [n] [ID id]",
			least: 1,
			most:  maxArgs,
			op:    engine.Record,
			syntax: syntax{
				numbers: 1,
				options: []string{"LIMITS", "ID"},
			},
		},
		{
			name:   "WEIR.REFUND",
			usage:  "WEIR.REFUND policy dimension=value … at_us [n] [ID id]",
			least:  2,
			most:   maxArgs,
			change: refund,
			op:     engine.Refund,
			syntax: syntax{
				needs:   grantInstant,
				numbers: 2,
				options: []string{"LIMITS", "ID"},
			},
		},
		{
			name: "WEIR.RESERVE",
			usage: "WEIR.RESERVE policy dimension=value … [n] [TTL milliseconds] [WAIT " +
				"milliseconds] [ID id]",
			least: 1,
			most:  maxArgs,
			op:    engine.Attempt,
			syntax: syntax{
				numbers: 1,
				options: []string{"LIMITS", "ID", "TTL", "WAIT"},
			},
		},
		{
			name:   "WEIR.SETTLE",
			usage:  "WEIR.SETTLE reservation [actual]",
			least:  1,
			most:   2,
			change: settle,
			syntax: syntax{reservation: true, settles: engine.AllUnits},
		},
		{
			name:   "WEIR.RELEASE",
			usage:  "WEIR.RELEASE reservation",
			least:  1,
			most:   1,
			change: settle,
			syntax: syntax{reservation: true},
		},
		{
			name:   "WEIR.EXTEND",
			usage:  "WEIR.EXTEND reservation [n [reserved]]",
			least:  1,
			most:   3,
			change: extend,
			syntax: syntax{reservation: true},
		},
		{
			name:   "WEIR.RESET",
			usage:  "WEIR.RESET policy dimension=value … [LIMIT name] …",
			least:  1,
			most:   maxArgs,
			change: reset,
			op:     engine.Reset,
			needs:  mayReset,
			syntax: syntax{options: []string{"LIMITS", "LIMIT"}},
		},
		{
			name:   "WEIR.BLOCK",
			usage:  "WEIR.BLOCK policy dimension=value … for_ms [LIMIT name] …",
			least:  2,
			most:   maxArgs,
			change: block,
			op:     engine.Block,
			needs:  mayReset,
			syntax: syntax{
				needs:   blockTime,
				numbers: 1,
				options: []string{"LIMITS", "LIMIT"},
			},
		},

		// Libraries send these when they connect: ioredis INFO, rueidis CLIENT TRACKING, and
		// StackExchange.Redis ECHO.
		{name: "PING", usage: "PING [message]", most: 1, reply: ping},
		{name: "ECHO", usage: "ECHO message", least: 1, most: 1, reply: ping},
		{
			name:  "HELLO",
			usage: "HELLO [2|3 [AUTH default TOKEN] [SETNAME name]]",
			most:  6,
			open:  true,
			reply: hello,
		},
		{name: "AUTH", usage: "AUTH [default] TOKEN", least: 1, most: 2, open: true, reply: auth},
		{name: "CLIENT", usage: "CLIENT SETNAME name", least: 1, most: maxArgs, reply: client},
		{name: "SELECT", usage: "SELECT 0", least: 1, most: 1, reply: selectDatabase},
		{name: "INFO", usage: "INFO [section …]", most: maxArgs, reply: info},
		{name: "QUIT", usage: "QUIT", most: maxArgs, open: true, reply: quit},
	}
	byName = make(map[string]*command, len(commands))
	for i := range commands {
		byName[commands[i].name] = &commands[i]
	}
}

// unknownCommand returns the error for an unknown command. Clients match its first two
// words.
func unknownCommand(name string) string {
	var ours []string
	for _, c := range commands {
		if strings.Contains(c.name, ".") {
			ours = append(ours, c.name)
		}
	}
	next := "Weir makes decisions and stores no data; write " + byName["WEIR.CHECK"].usage + "."
	word := strings.TrimPrefix(strings.ToUpper(name), "WEIR.")
	near := nearest.Name("WEIR."+word, ours)
	beginsAlike := strings.HasPrefix(near, "WEIR."+word[:min(1, len(word))])
	if near != "" && beginsAlike {
		next = "did you mean " + near + "?"
	}
	return "unknown command " + answer.Shown(name) + "; " + next +
		" Its commands are " + strings.Join(ours, ", ")
}

// listPolicies answers WEIR.POLICIES: an array for each policy, of its name and its
// dimensions.
func listPolicies(c *session, _ []string) {
	policies := c.server.config.Policies().Rules
	c.out = appendArray(c.out, len(policies))
	for _, p := range policies {
		dims := p.Dimensions()
		c.out = appendBulk(appendArray(c.out, 1+len(dims)), p.Name)
		for _, dim := range dims {
			c.out = appendBulk(c.out, dim)
		}
	}
}

// arguments are the parsed arguments of a command about a policy or a reservation. Unless
// Config.Waits is set, their strings are valid only during the command.
type arguments struct {
	policy *enforce.Rule
	enforce.Request
	pairs  enforce.Pairs // the pairs of the key
	needed int64         // the number that syntax.needs
	ttl    int64         // time to live in milliseconds; 0 = not set
	waits  bool          // there is a WAIT, so that the answer has a start
	wait   int64         // the longest wait in milliseconds, or calls.AnyWait
	lines  []string      // the limits of an inline policy; nil = the policy is that of the file

	reservation string // its name
	before      int64  // units of the reservation before an extension, or engine.Unknown
}

// syntax describes the arguments after the dimensions.
type syntax struct {
	reservation bool     // a reservation takes the place of the policy and the dimensions
	settles     int64    // the units that were used, of a reservation without a number
	needs       *operand // a number that must be there; nil = none
	numbers     int      // the most numbers: the one that it needs, and n
	options     []string // the last arguments, each a name and a value, in any order
}

// operand is a number that a command needs.
type operand struct {
	name   string
	most   int64
	bounds string // for the error of a wrong one; "" = 0 to most
	about  string // for the error of a missing one
}

var (
	grantInstant = &operand{
		name:  "the instant of the grant",
		most:  weir.MaxInstant,
		about: "the seventh element of the answer to WEIR.CHECK",
	}
	blockTime = &operand{
		name:  "for_ms",
		most:  weir.MaxWindow.Milliseconds(),
		about: "the time of the block in milliseconds; 0 ends blocks",
	}
	countSpan = &operand{
		name:   "last_ms",
		most:   weir.MaxUnits,
		bounds: "1 to the window of the limit in milliseconds",
		about:  "the span to count, 1 to the window of the limit in milliseconds",
	}
)

// readArguments parses the arguments of a command: a policy, its dimensions, the numbers of the
// syntax, and options. The dimensions take the memory of pairs.
func (s *Server) readArguments(args []string, cmd *command, pairs enforce.Pairs) (a arguments, err error) {
	a.Request = enforce.Request{Op: cmd.op, N: 1, Via: via}
	a.pairs = pairs
	if cmd.syntax.reservation {
		return a, a.readReservation(args, cmd)
	}
	rest, err := a.cutOptions(args[1:], cmd)
	if err != nil {
		return a, err
	}
	if a.policy, err = s.finder().Rule(args[0], a.lines); err != nil {
		if errors.Is(err, enforce.ErrNoPolicy) {
			problem := strings.TrimPrefix(err.Error(), "weir: ")
			err = calls.BadInput("%s; WEIR.POLICIES lists all policies", problem)
		}
		return a, err
	}
	dims := len(rest) // the dimensions stand before the numbers, which have no =
	for dims > 0 && strings.IndexByte(rest[dims-1], '=') < 0 {
		dims--
	}
	if err := a.readNumbers(rest[dims:], dims, cmd); err != nil {
		return a, err
	}
	if err := a.readPairs(rest[:dims], cmd); err != nil {
		return a, err
	}
	if err := a.findTarget(rest[:dims], cmd); err != nil {
		return a, err
	}
	if slices.Contains(cmd.syntax.options, "TTL") {
		a.Reserve = true
		if a.TTL, err = reserve.TTL(a.policy, &a.Target, a.ttl, "TTL"); err != nil {
			return a, err
		}
	}
	if a.waits {
		a.MaxWait, err = calls.MaxWait(a.policy, a.wait, "WAIT")
	}
	return a, err
}

// readNumbers parses the numbers behind the dimensions: the one that the syntax needs, and n. A
// word among them is meant as a dimension, if some are missing.
func (a *arguments) readNumbers(numbers []string, dims int, cmd *command) (err error) {
	lacksDimension := dims < len(a.policy.Dimensions())
	isWord := len(numbers) > 0 && lacksDimension && !beginsNumber(numbers[0])
	if len(numbers) > cmd.syntax.numbers || isWord {
		return noPair(numbers[0], a.policy, cmd)
	}
	if by := cmd.syntax.needs; by != nil {
		if len(numbers) == 0 {
			return calls.BadInput("%s is missing: %s; write %s", by.name, by.about, cmd.usage)
		}
		a.needed, err = parseNumber(numbers[0], by.name, by.most, by.bounds, cmd)
		if err != nil {
			return err
		}
		numbers = numbers[1:]
	}
	if len(numbers) == 1 {
		a.N, err = parseNumber(numbers[0], "n", weir.MaxUnits, "", cmd)
	}
	return err
}

// readPairs parses the dimensions into a.pairs.
func (a *arguments) readPairs(pairs []string, cmd *command) error {
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return noPair(pair, a.policy, cmd)
		}
		var problem string
		if a.pairs, problem = a.pairs.Add(name, value); problem != "" {
			return calls.BadInput("%s", problem)
		}
	}
	return nil
}

// findTarget finds what the command is about: the key, and for some commands its limits.
func (a *arguments) findTarget(pairs []string, cmd *command) (err error) {
	if a.changesKey() {
		a.Target, err = a.policy.ResetTarget(a.pairs, a.Limits)
	} else {
		a.Target, err = a.policy.Target(a.pairs)
	}
	if err == nil {
		return nil
	}
	if named := namedOperand(pairs, a.policy); named != "" {
		return calls.BadInput("%s is no dimension of policy %q; write %s",
			answer.Shown(named), a.policy.Name, cmd.usage)
	}
	return err
}

// readReservation parses the arguments of a command about a reservation: its name, and the units
// that were used, or the further ones of an extension with those before.
func (a *arguments) readReservation(args []string, cmd *command) (err error) {
	a.reservation = args[0]
	a.needed = cmd.syntax.settles
	a.before = engine.Unknown
	if len(args) > 1 {
		a.needed, err = parseNumber(args[1], "the number of units", weir.MaxUnits, "", cmd)
	}
	if len(args) > 2 && err == nil {
		a.before, err = parseNumber(args[2], "the units that were reserved before", weir.MaxUnits, "",
			cmd)
	}
	return err
}

// changesKey reports whether the command resets or blocks a key, in limits that it may name.
func (a *arguments) changesKey() bool { return a.Op == engine.Reset || a.Op == engine.Block }

// operandNames are the names of numbers and options, which belong behind the dimensions.
var operandNames = []string{"N", "ID", "TTL", "WAIT", "LIMIT", "LIMITS", "UNITS", "COST"}

// namedOperand returns the first pair that has the name of a number or an option in the place of a
// dimension, such as n=2 or ID=x, or "".
func namedOperand(pairs []string, of *enforce.Rule) string {
	for _, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		isOperand := slices.Contains(operandNames, strings.ToUpper(name))
		if isOperand && !slices.Contains(of.Dimensions(), name) {
			return pair
		}
	}
	return ""
}

// cutOptions parses the options and returns the arguments before them. Each option appears at most
// once, but for the limits of an inline policy, and those of a reset or a block. It has no =, so a
// dimension is never mistaken for one.
func (a *arguments) cutOptions(args []string, cmd *command) ([]string, error) {
	if err := checkLastOption(args, cmd); err != nil {
		return nil, err
	}
	for len(args) >= 2 {
		n := len(args) - 2
		name := strings.ToUpper(args[n])
		if !slices.Contains(cmd.syntax.options, name) || a.has(name) {
			return args, nil
		}
		if err := a.setOption(name, args[n+1], cmd); err != nil {
			return nil, err
		}
		args = args[:n]
	}
	return args, nil
}

// checkLastOption rejects an option at the end that has no value.
func checkLastOption(args []string, cmd *command) error {
	isOption := func(i int) bool {
		return i >= 0 && slices.ContainsFunc(cmd.syntax.options, func(name string) bool {
			return strings.EqualFold(name, args[i])
		})
	}
	last := len(args) - 1
	if !isOption(last) || isOption(last-1) {
		return nil
	}
	if strings.EqualFold(args[last], "LIMITS") {
		return calls.BadInput("%s has no value; "+
			`write a limit such as LIMITS "10 per minute per user", once for each`, args[last])
	}
	return calls.BadInput("%s has no value; write %s", args[last], cmd.usage)
}

// has reports whether an option that may appear once was read.
func (a *arguments) has(option string) bool {
	switch option {
	case "ID":
		return a.ID != ""
	case "TTL":
		return a.ttl != 0
	case "WAIT":
		return a.waits
	case "LIMIT":
		return a.Limit != ""
	}
	return false
}

// setOption sets an option. Options are read from the last one on, so a list grows at its start.
func (a *arguments) setOption(name, value string, cmd *command) (err error) {
	switch name {
	case "ID":
		a.ID = value
		if value == "" || len(value) > weir.MaxIDBytes {
			return calls.BadInput("an ID has 1 to %d bytes; "+
				"leave ID out for an operation without one", weir.MaxIDBytes)
		}
	case "TTL":
		a.ttl, err = parseNumber(value, "TTL, in milliseconds,", weir.MaxUnits, "", cmd)
		if err == nil && a.ttl == 0 {
			return calls.BadInput("TTL must be 1 or more; leave it out for the longest time")
		}
	case "WAIT":
		a.waits, a.wait = true, calls.AnyWait
		if value != anyWait {
			most := weir.MaxWindow.Milliseconds()
			a.wait, err = parseNumber(value, "WAIT, in milliseconds,", most, calls.WaitBounds, cmd)
		}
	case "LIMITS":
		a.lines = slices.Insert(a.lines, 0, value)
	case "LIMIT":
		if a.changesKey() {
			a.Limits = slices.Insert(a.Limits, 0, value)
			return nil
		}
		a.Limit = value
		if value == "" {
			return calls.BadInput("LIMIT must be the name of a limit; " +
				"leave it out for the only limit of a policy")
		}
	}
	return err
}

// anyWait is calls.AnyWait as a command has it.
var anyWait = strconv.Itoa(calls.AnyWait)

// parseNumber parses a whole number of a command, 0 … most. bounds is the range in the error;
// "" = 0 to most.
func parseNumber(text, what string, most int64, bounds string, cmd *command) (int64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n <= uint64(most) {
		return int64(n), nil
	}
	bounds = cmp.Or(bounds, "0 to "+strconv.FormatInt(most, 10))
	return 0, calls.BadInput("%s must be a whole number, %s, in digits alone, not %s; write %s",
		what, bounds, answer.Shown(text), cmd.usage)
}

// beginsNumber reports whether a text may be meant as a number, also as one that is out of range.
func beginsNumber(text string) bool {
	return text == "" || strings.IndexByte("0123456789+-.", text[0]) >= 0
}

// noPair returns the error of an argument in the place of a dimension of a policy.
func noPair(text string, of *enforce.Rule, cmd *command) error {
	dims := "no dimension: the policy counts all callers together"
	if all := of.Dimensions(); len(all) > 0 {
		dims = strings.Join(all, ", ")
	}
	return calls.BadInput("%s has no =; write %s, with a dimension=value for each of %s",
		answer.Shown(text), cmd.usage, dims)
}
