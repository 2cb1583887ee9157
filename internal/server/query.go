package server

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// keyPrefix makes a query name a dimension whatever it is called: key.n=5 is
// the dimension n, where n=5 is the number of units.
const keyPrefix = "key."

// query is what the query of a URL says.
type query struct {
	header   http.Header // where the values of a gate's key may stand; nil elsewhere
	key      pairs
	settings map[string]string // the reserved names that were given
}

// parse reads name=value&…, every name a dimension but those reserved.
// Names and values are decoded as forms encode them: %XX, and + for a space. A
// part without =, a bad escape and a name given twice are errors; so whoever can
// append to a proxy's query can make a call fail, but not choose another key.
func (q *query) parse(raw string, reserved []string) error {
	for raw != "" {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		if part == "" {
			continue
		}
		if err := q.part(part, reserved); err != nil {
			return err
		}
	}
	return nil
}

func (q *query) part(part string, reserved []string) error {
	name, value, ok := strings.Cut(part, "=")
	if !ok {
		return badInput("query: " + answer.Shown(part) + " has no =; write dimension=value")
	}
	name, err := url.QueryUnescape(name)
	if err == nil {
		value, err = url.QueryUnescape(value)
	}
	if err != nil {
		return badInput("query: " + answer.Shown(part) + " holds a % that begins no escape; write a percent sign as %25")
	}
	for _, r := range reserved {
		if name == r {
			return q.setting(name, value)
		}
	}
	if q.header != nil {
		if name, value, err = fromHeader(q.header, name, value); err != nil {
			return err
		}
	}
	if problem := q.key.add(strings.TrimPrefix(name, keyPrefix), value); problem != "" {
		return badInput("query: " + problem)
	}
	return nil
}

func (q *query) setting(name, value string) error {
	if _, twice := q.settings[name]; twice {
		return badInput("query: " + name + " is given twice; give it once (a dimension of that name is written " + keyPrefix + name + ")")
	}
	if q.settings == nil {
		q.settings = map[string]string{}
	}
	q.settings[name] = value
	return nil
}

// gateSettings are the names that are no dimensions in the query of a gate.
var gateSettings = []string{"deny", "n"}

// units is the setting n: 1 … weir.MaxUnits, 1 unless given. 0 would let a
// request pass that is never counted, and whoever can append to a proxy's query
// could append n=0.
func (q *query) units() (int64, error) {
	v, ok := q.settings["n"]
	if !ok {
		return 1, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > weir.MaxUnits || v[0] == '+' || v[0] == '0' {
		return 0, badInput("query: n must be a whole number, 1 to " + strconv.FormatInt(weir.MaxUnits, 10) +
			", not " + answer.Shown(v) + "; to look without counting, POST /v1/peek")
	}
	return n, nil
}

// deny is the status of a refusal: 429 unless the setting deny says 403, which
// nginx needs since it turns every other denial of auth_request into 500.
func (q *query) deny() (int, error) {
	switch v, ok := q.settings["deny"]; {
	case !ok, v == "429":
		return http.StatusTooManyRequests, nil
	case v == "403":
		return http.StatusForbidden, nil
	default:
		return 0, badInput("query: deny must be 403 or 429, not " + answer.Shown(v))
	}
}
