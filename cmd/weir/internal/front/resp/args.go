package resp

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// arguments are the parsed arguments of a command about a policy or a reservation. Unless
// Config.Waits is set, their strings are valid only during the command.
type arguments struct {
	policy *enforce.Rule
	enforce.Request
	pairs  enforce.Pairs // the pairs of the key
	needed int64         // the number that syntax.needs
	ttl    int64         // time to live in milliseconds; 0 = not set
	lasts  time.Duration // time to live of the reservation
	token  string        // the reservation
}

// syntax describes the arguments after the dimensions.
type syntax struct {
	token   bool     // a reservation takes the place of the policy and the dimensions
	settles int64    // the units that were used, of a reservation without a number
	needs   *operand // a number that must be there; nil = none
	numbers int      // the most numbers: the one that it needs, and n
	options []string // the last arguments, each a name and a value, in any order
}

// operand is a number that a command needs.
type operand struct {
	name   string
	most   int64
	bounds string // for the error of a wrong one
	about  string // for the error of a missing one
}

var (
	grantInstant = &operand{"the instant of the grant", weir.MaxInstant, upTo(weir.MaxInstant), "the seventh element of the answer to WEIR.CHECK"}
	countSpan    = &operand{"last_ms", weir.MaxUnits, "1 to the window of the limit in milliseconds", "the span to count, 1 to the window of the limit in milliseconds"}
)

// readArguments parses the arguments of a command: a policy, its dimensions, the numbers of the
// syntax, and options. The dimensions take the memory of pairs.
func (s *Server) readArguments(args []string, cmd *command, pairs enforce.Pairs) (a arguments, err error) {
	syntax := &cmd.syntax
	a.Request, a.pairs = enforce.Request{Op: cmd.op, N: 1, Via: via}, pairs
	if syntax.token {
		a.token, a.needed = args[0], syntax.settles
		if len(args) == 2 {
			a.needed, err = number(args[1], "the units that were used", weir.MaxUnits, anyUnits)
		}
		return a, err
	}
	if a.policy, err = s.config.Policies().Rule(args[0]); err != nil {
		return a, calls.BadInput("%s; WEIR.POLICIES lists all policies", strings.TrimPrefix(err.Error(), "weir: "))
	}
	rest, err := a.cutOptions(args[1:], syntax.options)
	if err != nil {
		return a, err
	}
	dims := len(rest) // before the numbers, which have no =
	for dims > 0 && strings.IndexByte(rest[dims-1], '=') < 0 {
		dims--
	}
	numbers := rest[dims:]
	if len(numbers) > syntax.numbers {
		return a, noPair(numbers[0], a.policy)
	}
	if by := syntax.needs; by != nil {
		if len(numbers) == 0 {
			return a, calls.BadInput("%s is missing: %s", by.name, by.about)
		}
		if a.needed, err = number(numbers[0], by.name, by.most, by.bounds); err != nil {
			return a, err
		}
		numbers = numbers[1:]
	}
	if len(numbers) == 1 {
		if a.N, err = number(numbers[0], "n", weir.MaxUnits, anyUnits); err != nil {
			return a, err
		}
	}
	for _, pair := range rest[:dims] {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return a, noPair(pair, a.policy)
		}
		var problem string
		if a.pairs, problem = a.pairs.Add(name, value); problem != "" {
			return a, calls.BadInput("%s", problem)
		}
	}
	a.Target, err = a.policy.Target(a.pairs)
	if err == nil && slices.Contains(syntax.options, "TTL") {
		if a.lasts, err = reserve.TTL(a.policy, a.ttl, "TTL"); err == nil {
			err = s.config.Reservations.Prepare(background, observe.RESP, a.policy)
		}
	}
	return a, err
}

// cutOptions parses the options and returns the arguments before them. Each option appears
// at most once. It has no =, so a dimension is never mistaken for one.
func (a *arguments) cutOptions(args, allowed []string) ([]string, error) {
	for len(args) >= 2 {
		n := len(args) - 2
		value := args[n+1]
		switch name := strings.ToUpper(args[n]); {
		case !slices.Contains(allowed, name):
			return args, nil
		case name == "ID" && a.ID == "":
			if a.ID = value; value == "" || len(value) > weir.MaxIDBytes {
				return nil, calls.BadInput("an ID has 1 to %d bytes; leave ID out for an operation without one", weir.MaxIDBytes)
			}
		case name == "TTL" && a.ttl == 0:
			var err error
			if a.ttl, err = number(value, "TTL, in milliseconds,", weir.MaxUnits, anyUnits); err != nil {
				return nil, err
			}
			if a.ttl == 0 {
				return nil, calls.BadInput("TTL must be 1 or more; leave it out for the longest time")
			}
		case name == "LIMIT" && a.Limit == "":
			if a.Limit = value; value == "" {
				return nil, calls.BadInput("LIMIT must be the name of a limit; leave it out for the only limit of a policy")
			}
		default: // it is given twice
			return args, nil
		}
		args = args[:n]
	}
	return args, nil
}

// anyUnits is the range of units, for errors.
var anyUnits = upTo(weir.MaxUnits)

func upTo(most int64) string { return "0 to " + strconv.FormatInt(most, 10) }

// number parses a whole number, 0 … most. bounds is the range in the error.
func number(text, what string, most int64, bounds string) (int64, error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n <= uint64(most) {
		return int64(n), nil
	}
	return 0, calls.BadInput("%s must be a whole number, %s, in digits alone, not %s (a dimension is written dimension=value)", what, bounds, answer.Shown(text))
}

// noPair returns the error of an argument in the place of a dimension of a policy.
func noPair(text string, of *enforce.Rule) error {
	dims := "no dimension: the policy counts all callers together"
	if all := of.Dimensions(); len(all) > 0 {
		dims = strings.Join(all, ", ")
	}
	return calls.BadInput("%s has no =; write dimension=value for each of %s", answer.Shown(text), dims)
}
