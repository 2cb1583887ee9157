package weirhttp

import (
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// ValueFunc takes one dimension's value from a request, or says why there is none.
type ValueFunc = func(*http.Request) (string, error)

// KeyBy builds the key of a policy with several dimensions, one function each,
// in the order of Plan.Dimensions. Without functions it is the key of a policy
// that counts all callers together.
func KeyBy(values ...ValueFunc) KeyFunc {
	return func(r *http.Request) (weir.Key, error) {
		var shown [4]string
		all := shown[:0]
		for _, value := range values {
			v, err := value(r)
			if err != nil {
				return weir.Key{}, err
			}
			all = append(all, v)
		}
		return weir.K(all...), nil
	}
}

// ByClientIP is KeyBy(ClientIP(opts...)).
func ByClientIP(opts ...IPOption) KeyFunc { return KeyBy(ClientIP(opts...)) }

// ByHeader is KeyBy(Header(name)).
func ByHeader(name string) KeyFunc { return KeyBy(Header(name)) }

// Header takes the value of a request header field. A field that is missing,
// empty or sent twice is a *KeyError: requests without it must not all share one
// history, and of two values none is to be trusted more.
//
// Whoever can choose the value chooses the history. Count by a header only behind
// whatever authenticates it.
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
