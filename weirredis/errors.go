package weirredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

var (
	// ErrState means that a key holds data that this version of Weir does not write.
	// Nothing was written. Errors that wrap it also wrap engine.ErrUnreadable and
	// engine.ErrUnavailable.
	ErrState = errors.New("weirredis: unreadable history")

	// ErrServer means that the server is unfit for limits. The error has the reason and
	// the next step.
	ErrServer = errors.New("weirredis: unfit server")
)

// StoreError means that Redis was unreachable, rejected the call, or did not reply. It
// wraps the cause and engine.ErrOutcomeUnknown, engine.ErrUnavailable or, of a server at its
// maxmemory, engine.ErrFull (R13). It wraps a context's error only if the context of the call
// has ended, not after a timeout of the client itself.
type StoreError struct {
	Address string // the server's address, never with a password; "" if the Conn has none
	Err     error
	// OutcomeUnknown reports whether the call may be counted: it was sent, and its reply was
	// lost, or the server refused a command after the first write. A retry could be counted a
	// second time.
	OutcomeUnknown bool
}

// Error returns the problem, the server and the next step.
func (e *StoreError) Error() string {
	where := ""
	if e.Address != "" {
		where = " at " + e.Address
	}
	var rejected ReplyError
	switch {
	case errors.As(e.Err, &rejected):
		text := fmt.Sprintf("weirredis: Redis%s rejected: %v", where, e.Err)
		if e.OutcomeUnknown {
			text += "; the call may be counted, in part or in full"
		}
		if next := advice[cause(string(rejected))]; next != "" {
			text += "; " + next
		}
		return text
	case e.OutcomeUnknown:
		return fmt.Sprintf("weirredis: no answer from Redis%s: %v; "+
			"the outcome of the call is unknown, so it is not repeated", where, e.Err)
	}
	return fmt.Sprintf("weirredis: no answer from Redis%s: %v; "+
		"nothing was counted; does it run, and does it listen there?", where, e.Err)
}

// Unwrap returns the sentinel for the call's outcome, and the cause.
func (e *StoreError) Unwrap() []error {
	var rejected ReplyError
	switch {
	case e.OutcomeUnknown:
		return []error{engine.ErrOutcomeUnknown, e.Err}
	case errors.As(e.Err, &rejected) && cause(string(rejected)) == "OOM":
		return []error{engine.ErrFull, e.Err} // not unavailable: it still answers denials
	}
	return []error{engine.ErrUnavailable, e.Err}
}

// advice is the next step for common error replies, by their cause.
var advice = map[string]string{
	"OOM":        "it is at its maxmemory: raise it, or wait until histories expire",
	"READONLY":   "it is a replica: connect to the primary",
	"MASTERDOWN": "it is a replica that has lost its primary: connect to the primary",
	"LOADING":    "it is still loading its data: wait",
	"NOAUTH":     "give the client a password",
	"WRONGPASS":  "check user and password",
	noRight: "its user needs +@scripting +@hash +@string +@keyspace +time +info on keys weir*, " +
		"behind the prefix if there is one",
	"CROSSSLOT": "it is a Cluster: its Conn must report that (Topology)",
	"MISCONF":   "it cannot save its data: look at its log",
	"TRYAGAIN": "a slot of the Cluster is on its way to another node: " +
		"wait, or finish what moves it",
	"CLUSTERDOWN": "the Cluster does not serve the slot: see its CLUSTER INFO",
	"MOVED":       followMoved,
	"ASK":         followMoved,
	"BUSY": "a script runs too long: wait; " +
		"SCRIPT KILL ends one that has not written, and its SLOWLOG names it",
	disabled:     "a rename-command or a proxy disables a command that Weir needs: end that",
	killed:       "nothing was counted; see its SLOWLOG for scripts that run long, and try again",
	"NOREPLICAS": "too few replicas follow it: see its min-replicas-to-write",
}

const followMoved = "it is a node of a Cluster: use a client that follows it"

// These causes have several texts, by the version of the server.
const (
	noRight  = "NOPERM"
	disabled = "unknown command"
	killed   = "SCRIPT KILL" // by an operator; Redis ends no script that has written
)

// cause returns the cause of an error reply: one of the constants, or its first word.
func cause(reply string) string {
	switch has := func(part string) bool { return strings.Contains(reply, part) }; {
	case has("The user executing the script can't "), has("ACL failure in script: "):
		return noRight
	case has("Unknown Redis command called"),
		has("Unknown command called"),
		has("unknown command "):
		return disabled
	case has("Script killed by user"):
		return killed
	}
	word, _, _ := strings.Cut(reply, " ")
	return word
}

// refused reports whether a reply refuses a command with any arguments.
func refused(reply string) bool { return cause(reply) == noRight || cause(reply) == disabled }

// stateError is ErrState with the keys, the problem and the next step.
type stateError struct {
	keys       []string
	what, next string
}

func (e *stateError) Error() string {
	return fmt.Sprintf("%v under %s: %s; it was left as it is: %s",
		ErrState, quoteKeys(e.keys), e.what, e.next)
}

func (e *stateError) Unwrap() []error {
	return []error{ErrState, engine.ErrUnreadable, engine.ErrUnavailable}
}

// callError returns the error of this package for the failed call c. ctx is the call's context,
// and keys are the keys of its histories. writes reports whether the call could have changed a
// history.
func (e *Engine) callError(
	ctx context.Context, err error, c *engine.Call, keys []string, writes bool,
) error {
	var rejected ReplyError
	if !errors.As(err, &rejected) {
		var unsent UnsentError
		return &StoreError{
			Address:        e.address(),
			Err:            callersError(ctx, err),
			OutcomeUnknown: writes && !errors.As(err, &unsent),
		}
	}
	// The script failed after its first write.
	if reply, half := strings.CutPrefix(string(rejected), "weir:half "); half {
		return &StoreError{Address: e.address(), Err: ReplyError(reply), OutcomeUnknown: true}
	}
	if inner, wrapped := unwrapReply(string(rejected)); wrapped {
		rejected = ReplyError(inner)
		err = rejected
	}
	// First, because the reply may quote the name of a user, or a key, with weir: in it.
	if refused(string(rejected)) {
		return &StoreError{Address: e.address(), Err: err}
	}
	// The server appends the script and the line.
	text, _, _ := strings.Cut(string(rejected), " script: ")
	_, word, ours := strings.Cut(text, "weir:")
	switch {
	case ours && strings.HasPrefix(word, "overflow "):
		return overflow(word, c)
	case ours && strings.HasPrefix(word, "id "):
		return otherOperation(word, c)
	case ours && !strings.HasPrefix(word, "state "):
		return reservationError(word, c)
	case ours:
		return &stateError{
			keys,
			describeState(word),
			"delete the key to begin again, or use the version of Weir that wrote it",
		}
	case strings.Contains(text, "WRONGTYPE "):
		return &stateError{
			keys,
			"the type of its value is not that of Weir, so something else uses the key",
			"give limits a database of their own, or delete the key",
		}
	case strings.Contains(text, "user_script:") && cause(text) != killed:
		return &stateError{keys, "it is damaged (" + text + ")", "delete the key to begin again"}
	}
	return &StoreError{Address: e.address(), Err: err}
}

// unwrapReply returns the reply to a command inside a script, which servers before 7.0 wrap in the
// error of the script.
func unwrapReply(reply string) (inner string, wrapped bool) {
	_, inner, wrapped = strings.Cut(reply, "@user_script: ")
	if wrapped {
		_, inner, wrapped = strings.Cut(inner, ": -")
	}
	return inner, wrapped
}

// overflow returns the error for the script's "overflow LIMIT UNITS". A settlement above its number
// records units that only the script knows.
func overflow(word string, c *engine.Call) error {
	place, used := 0, ""
	_, err := fmt.Sscanf(word, "overflow %d %s", &place, &used)
	if err != nil || place < 1 || place > len(c.Rules.Limits) {
		return fmt.Errorf("%w: %s", engine.ErrOverflow, word)
	}
	l, further := &c.Rules.Limits[place-1], "with more it"
	if c.Op != engine.Settle {
		further = fmt.Sprintf("with %d more it", recorded(c, l))
	}
	return fmt.Errorf("%w: limit %q counts %s; %s would pass %d; record less, or reset the key",
		engine.ErrOverflow, l.Name, misuse.Units(used), further, most(l))
}

// recorded returns the units that a call without room records in a limit (R6, R10).
func recorded(c *engine.Call, l *engine.Limit) int64 {
	n := l.Units(c.N)
	if c.Rules.Mode == engine.CountDenied && l.Kind != engine.KindBucket {
		return min(n, l.Max)
	}
	return n
}

// most returns the units up to which a record can bring the history of a limit.
func most(l *engine.Limit) int64 {
	if l.Kind == engine.KindBucket {
		return l.Refill.MaxExact
	}
	return engine.MaxUnits
}

// describeState returns the text for the script's "state …".
func describeState(word string) string {
	word = strings.TrimSpace(strings.TrimPrefix(word, "state "))
	if n, ok := strings.CutPrefix(word, "version "); ok {
		return fmt.Sprintf("its layout is version %s, "+
			"this Weir reads 1 and 2, of buckets 3, of blocks 4, and of appointments 5", n)
	}
	return word
}

// quoteKeys escapes keys for messages, because callers choose their bytes.
func quoteKeys(keys []string) string {
	const most = 200
	quoted := make([]string, len(keys))
	for i, k := range keys {
		quoted[i] = strconv.QuoteToASCII(k[:min(len(k), most)])
		if len(k) > most {
			quoted[i] += "…"
		}
	}
	return strings.Join(quoted, ", ")
}

// clientTimeout is a timeout of the client itself. It hides the context error inside, because
// callers would mistake that for the end of their own context.
type clientTimeout struct{ error }

// Is reports whether the error is the target. It is never a context's error.
func (e clientTimeout) Is(target error) bool {
	isContexts := target == context.DeadlineExceeded || target == context.Canceled
	return !isContexts && errors.Is(e.error, target)
}

// As finds the target in the error.
func (e clientTimeout) As(target any) bool { return errors.As(e.error, target) }

// callersError returns err for the owner of ctx: it contains a context's error only if
// that context has ended.
func callersError(ctx context.Context, err error) error {
	isContexts := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if isContexts && !hasEnded(ctx) {
		return clientTimeout{err}
	}
	return err
}

// hasEnded reports whether ctx is done or its deadline has passed. Contexts with the same
// deadline do not end at exactly the same instant.
func hasEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) <= 0
}

// otherOperation returns the error for the script's "id OPERATION UNITS", of a reservation with
// "reserved" behind it: the idempotency key of c belongs to another operation.
func otherOperation(word string, c *engine.Call) error {
	op := engine.Attempt
	var units, opens string
	fmt.Sscanf(word, "id %d %s %s", &op, &units, &opens) // missing parts stay empty
	known := operationText(op, opens != "", units)
	now := operationText(c.Op, c.TTL > 0, strconv.FormatInt(c.N, 10))
	if known == now { // two refunds: the script does not report their instants
		known, now = known+" at one instant", now+" at another"
	}
	return engine.Input("id",
		"it names %s, and now %s; give each operation an id of its own", known, now)
}

// operationText returns an operation in a sentence.
func operationText(op engine.Op, opens bool, units string) string {
	name := opWords[op]
	if opens {
		name = "a reservation"
	}
	return name + " of " + misuse.Units(units)
}

// reservationError returns the error for the script's words about the reservation of c (R19).
func reservationError(word string, c *engine.Call) error {
	about, detail, _ := strings.Cut(strings.TrimSpace(word), " ")
	about, detail = strings.TrimSpace(about), strings.TrimSpace(detail)
	switch {
	case about == "settled" && c.Op == engine.Settle:
		return fmt.Errorf("%w: with %s, and now %s",
			engine.ErrSettled, misuse.Units(detail), settledText(c.N))
	case about == "settled":
		return fmt.Errorf("%w: with %s", engine.ErrSettled, misuse.Units(detail))
	case about == "units" && c.From != engine.Unknown && strconv.FormatInt(c.From, 10) != detail:
		return engine.Input("units", "the reservation has %s, not %d; extend it from that number",
			misuse.Units(detail), c.From)
	case about == "units":
		return engine.Input("units", "the reservation has %s, and %d more pass %d; take fewer",
			misuse.Units(detail), c.N, engine.MaxUnits)
	}
	switch reason, units, _ := strings.Cut(detail, " "); reason {
	case "life":
		return fmt.Errorf("%w: the grant of %s stays", engine.ErrExpired, misuse.Units(units))
	case "hold":
		return fmt.Errorf("%w: its hold has ended; settle it with a number of units",
			engine.ErrExpired)
	}
	return fmt.Errorf("%w: it is unknown, or was settled more than a minute ago", engine.ErrExpired)
}

// settledText returns the number of a settlement in a sentence.
func settledText(n int64) string {
	if n == engine.AllUnits {
		return "all that were granted"
	}
	return strconv.FormatInt(n, 10)
}

// opWords are the operations that have an idempotency key, in a sentence.
var opWords = map[engine.Op]string{
	engine.Attempt: "an attempt",
	engine.Record:  "a record",
	engine.Refund:  "a refund",
}
