package weirredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

var (
	// ErrState: what is stored under a key is not what this version of Weir
	// stores. Nothing was written. Errors that wrap it also wrap
	// weir.ErrUnreadable and weir.ErrUnavailable.
	ErrState = errors.New("weirredis: unreadable history")

	// ErrServer: the server is unfit for limits; the error says why and what to do.
	ErrServer = errors.New("weirredis: unfit server")
)

// StoreError means that Redis could not be asked, refused, or did not answer. It
// wraps weir.ErrUnknownFate or weir.ErrUnavailable, and the cause. It wraps a
// context's error only if the context of the call is over: a timeout of the client's
// own is not the caller's.
type StoreError struct {
	Address string // where the server was looked for, never with a password; "" where the Conn does not say
	Err     error
	// MayHaveCounted reports whether the call may have run all the same: it was
	// sent, and its answer was lost. Asking again could count it twice.
	MayHaveCounted bool
}

// Error says what happened, where, and what to look at.
func (e *StoreError) Error() string {
	where := ""
	if e.Address != "" {
		where = " at " + e.Address
	}
	var refused ReplyError
	switch {
	case e.MayHaveCounted:
		return fmt.Sprintf("weirredis: no answer from Redis%s: %v; the call may have been counted, so it is not repeated", where, e.Err)
	case errors.As(e.Err, &refused):
		return fmt.Sprintf("weirredis: Redis%s refused: %v%s", where, e.Err, advice(refused))
	}
	return fmt.Sprintf("weirredis: no answer from Redis%s: %v; nothing was counted; does it run, and does it listen there?", where, e.Err)
}

// Unwrap returns what the error says of the call's fate, and the cause.
func (e *StoreError) Unwrap() []error {
	if e.MayHaveCounted {
		return []error{weir.ErrUnknownFate, e.Err}
	}
	return []error{weir.ErrUnavailable, e.Err}
}

// advice is the next step for the refusals that people meet.
func advice(err ReplyError) string {
	word, _, _ := strings.Cut(string(err), " ")
	switch word {
	case "OOM":
		return "; it is at its maxmemory: raise it, or wait until histories expire"
	case "READONLY":
		return "; it is a replica: connect to the primary"
	case "LOADING":
		return "; it is still loading its data: wait"
	case "NOAUTH":
		return "; give the client a password"
	case "WRONGPASS":
		return "; check user and password"
	case "NOPERM":
		return "; its user needs +@scripting +@hash +@string +@keyspace +time +info on keys weir*"
	case "CROSSSLOT":
		return "; it is a Cluster, which its Conn has to say (Topology)"
	case "MISCONF":
		return "; it cannot save its data: look at its log"
	case "TRYAGAIN":
		return "; a slot of the Cluster is on its way to another node: wait, or finish what moves it"
	case "CLUSTERDOWN":
		return "; the Cluster does not serve the slot: see its CLUSTER INFO"
	case "MOVED", "ASK":
		return "; it is a node of a Cluster: use a client that follows it"
	case "NOREPLICAS":
		return "; too few replicas follow it: see its min-replicas-to-write"
	}
	return ""
}

// stateError is ErrState with what was found where.
type stateError struct{ text string }

func (e *stateError) Error() string { return ErrState.Error() + e.text }

func (e *stateError) Unwrap() []error {
	return []error{ErrState, weir.ErrUnreadable, weir.ErrUnavailable}
}

// problem turns what went wrong with a call into an error of this package. ctx is
// that of the call, the keys are those of the decision, p is its policy; writes says
// whether the call would have recorded anything.
func (e *Engine) problem(ctx context.Context, err error, p *weir.Plan, keys []string, writes bool) error {
	var refused ReplyError
	if !errors.As(err, &refused) {
		var unsent UnsentError
		return &StoreError{Address: e.address(), Err: theirs(ctx, err), MayHaveCounted: writes && !errors.As(err, &unsent)}
	}
	text, _, _ := strings.Cut(string(refused), " script: ") // what the server adds to the words of a script
	_, word, ours := strings.Cut(text, "weir:")
	switch {
	case ours && strings.HasPrefix(word, "overflow "):
		return overflow(word, p)
	case ours && strings.HasPrefix(word, "id "):
		return otherOperation(word)
	case ours:
		return &stateError{fmt.Sprintf(" under %s: %s; it was left as it is: delete the key to begin anew, or use the version of Weir that wrote it",
			quoteKeys(keys), describeState(word))}
	case strings.Contains(text, "WRONGTYPE "):
		return &stateError{fmt.Sprintf(" under %s: what is there is not a hash, so something else uses the key; it was left as it is: give limits a database of their own, or delete the key",
			quoteKeys(keys))}
	case strings.Contains(text, "user_script:"):
		return &stateError{fmt.Sprintf(" under %s: it is damaged (%s); it was left as it is: delete the key to begin anew",
			quoteKeys(keys), text)}
	}
	return &StoreError{Address: e.address(), Err: err}
}

// overflow reads "overflow LIMIT UNITS".
func overflow(word string, p *weir.Plan) error {
	limit, used := 0, ""
	if _, err := fmt.Sscanf(word, "overflow %d %s", &limit, &used); err != nil || limit < 1 || limit > len(p.Limits()) {
		return fmt.Errorf("%w: %s", weir.ErrOverflow, word)
	}
	return fmt.Errorf("%w: limit %q holds %s units that count; with more it would pass %d; record less, or reset the key",
		weir.ErrOverflow, p.Limits()[limit-1].Name, used, weir.MaxUnits)
}

// describeState reads "state …".
func describeState(word string) string {
	word = strings.TrimSpace(strings.TrimPrefix(word, "state "))
	if n, ok := strings.CutPrefix(word, "version "); ok {
		return fmt.Sprintf("its layout is version %s, this Weir reads 2 and 4 to 7", n)
	}
	return word
}

// quoteKeys shows keys, whose bytes callers chose, so that they are safe to print.
func quoteKeys(keys []string) string {
	const most = 200
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		if len(k) > most {
			b.WriteString(strconv.QuoteToASCII(k[:most]) + "…")
		} else {
			b.WriteString(strconv.QuoteToASCII(k))
		}
	}
	return b.String()
}
