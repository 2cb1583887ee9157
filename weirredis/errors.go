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
	// stores. Nothing was written.
	ErrState = errors.New("weirredis: unreadable history")

	// ErrServer: the server is unfit for limits; the error says why and what to do.
	ErrServer = errors.New("weirredis: unfit server")
)

// StoreError means that Redis could not be asked, or did not answer.
type StoreError struct {
	Address string // where the server was looked for; never with a password
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
	if e.MayHaveCounted {
		return fmt.Sprintf("weirredis: no answer from Redis%s: %v; the call may have been counted, so it is not repeated", where, e.Err)
	}
	return fmt.Sprintf("weirredis: Redis%s refused: %v%s", where, e.Err, advice(e.Err))
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// advice is the next step for the refusals that people meet.
func advice(err error) string {
	for word, step := range map[string]string{
		"OOM ":       "; it is at its maxmemory: raise it, or wait until histories expire",
		"READONLY ":  "; it is a replica: connect to the primary",
		"LOADING ":   "; it is still loading its data: wait",
		"NOAUTH ":    "; give the client a password",
		"WRONGPASS ": "; check user and password",
		"NOPERM ":    "; the user needs +@scripting +@hash +@keyspace +time +info on keys weir1*",
		"CROSSSLOT ": "; it is a Cluster: make the Conn say so (Topology)",
		"MISCONF ":   "; it cannot save its data: look at its log",
		"NOREPLICAS": "; too few replicas follow it: see min-replicas-to-write",
	} {
		if strings.HasPrefix(err.Error(), word) {
			return step
		}
	}
	return ""
}

// problem turns what went wrong with a call into an error of this package. The
// keys are those of the decision; p is its policy.
func (e *Engine) problem(err error, p *weir.Plan, keys []string) error {
	var refused ReplyError
	if !errors.As(err, &refused) {
		if ctxErr := context.Cause(context.Background()); ctxErr != nil {
			return ctxErr
		}
		return &StoreError{Address: e.address(), Err: err, MayHaveCounted: true}
	}
	text := string(refused)
	switch _, word, found := strings.Cut(text, "weir:"); {
	case found && strings.HasPrefix(word, "overflow "):
		return overflow(word, p)
	case found:
		return fmt.Errorf("%w under %s: %s; it was left as it is: delete the key to begin anew, or use the version of Weir that wrote it",
			ErrState, quoteKeys(keys), describeState(word))
	case strings.Contains(text, "WRONGTYPE "):
		return fmt.Errorf("%w under %s: it is not a hash, so something else uses the key; it was left as it is",
			ErrState, quoteKeys(keys))
	case strings.Contains(text, "user_script:"):
		return fmt.Errorf("%w under %s: %s; it was left as it is", ErrState, quoteKeys(keys), text)
	}
	return &StoreError{Address: e.address(), Err: err}
}

// overflow reads "overflow LIMIT UNITS …".
func overflow(word string, p *weir.Plan) error {
	fields := strings.Fields(word)
	limit, used := "?", "?"
	if len(fields) >= 3 {
		if i, err := strconv.Atoi(fields[1]); err == nil && i >= 1 && i <= len(p.Limits()) {
			limit = p.Limits()[i-1].Name
		}
		used = fields[2]
	}
	return fmt.Errorf("%w: limit %q holds %s units that count; with more it would pass %d",
		weir.ErrOverflow, limit, used, weir.MaxUnits)
}

// describeState reads "state …", without what the server puts behind.
func describeState(word string) string {
	word = strings.TrimPrefix(word, "state ")
	word, _, _ = strings.Cut(word, " script: ")
	if n, ok := strings.CutPrefix(word, "version "); ok {
		return fmt.Sprintf("it has layout version %s, this Weir knows 1 to 3", strings.TrimSpace(n))
	}
	return strings.TrimSpace(word)
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
