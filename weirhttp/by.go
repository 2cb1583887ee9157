package weirhttp

import (
	"errors"
	"net/http"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
)

// By maps each dimension of a policy to the function that takes its value from a
// request. Its names are those of the policy's dimensions, no more and no fewer. A policy that
// counts all callers together has none; its By is nil or empty.
type By map[string]ValueFunc

// ValueFunc takes the value of one dimension from a request. A request without the value
// is reported as a *KeyError and answered with 400. Any other error is a fault of the
// program ([ErrValue]).
type ValueFunc = func(*http.Request) (string, error)

// ErrValue reports that a ValueFunc failed for a reason other than the request. The
// default answer is 500 and a log line, also with AllowWhenDown.
var ErrValue = errors.New("weirhttp: a value function failed")

// KeyError reports that a request lacks a value of the key, or that the value is
// malformed. Its text is meant for the client.
type KeyError struct {
	Problem string
}

// Error returns the problem.
func (e *KeyError) Error() string { return "weirhttp: " + e.Problem }

// readKey returns the key of a request. values are in the order of the policy's dimensions.
// The error is a *KeyError or wraps ErrValue.
func readKey(r *http.Request, p *engine.Compiled, values []ValueFunc) (weir.Key, error) {
	return keyby.Read[*KeyError](p, values, ErrValue, func(value ValueFunc) (string, error) { return value(r) })
}

// Header takes the value of a request header field. A field that is missing or empty is
// a *KeyError: requests without it must not share one history by accident. So is a field
// that was sent twice, because neither value can be trusted more.
//
// A client that can choose the value chooses the history. Count by a header only if it
// is authenticated.
func Header(name string) ValueFunc {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		switch lines := r.Header[name]; {
		case len(lines) == 0 || len(lines) == 1 && lines[0] == "":
			return "", &KeyError{Problem: "the header " + answer.Shown(name) + " is missing; send it with every request"}
		case len(lines) > 1:
			return "", &KeyError{Problem: "the header " + answer.Shown(name) + " was sent more than once; send it once"}
		default:
			return lines[0], nil
		}
	}
}

// Host takes the host that a client's request is sent to, in lower case, with its port
// if the URL has one.
func Host(r *http.Request) (string, error) {
	if r.URL == nil || r.URL.Host == "" {
		return "", &KeyError{Problem: "the request has no host that it goes to"}
	}
	return strings.ToLower(r.URL.Host), nil
}
