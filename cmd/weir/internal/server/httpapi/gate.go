package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/fields"
	"github.com/weirlimit/weir/weirhttp"
)

// serveGate answers a proxy with 204, or with a denial: 429 (403 with deny=403) and a problem
// document. Header fields hold the state of the limits. The query has the key, and in n the units.
func (a *API) serveGate(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noStore
	s := scratches.Get().(*scratch)
	defer s.release()
	denial, err := a.parseGate(r, s)
	if err == nil {
		err = a.Capacity.Do(func() error { return a.decide(s) })
	}
	if err != nil {
		if calls.IsBadInput(err) {
			a.logGate(s.reasonFor(err))
		}
		a.reject(w, err)
		return
	}
	a.writeGate(w, s, denial)
}

// parseGate reads the path, the query and the header of a gate call. It returns the status
// of a denial.
func (a *API) parseGate(r *http.Request, s *scratch) (denial int, err error) {
	q := query{gate: r, reserved: gateSettings}
	if err := a.parseKey(r, s, &q); err != nil {
		return 0, err
	}
	s.Op = engine.Attempt
	s.Via = viaGate
	if a.Tracing {
		s.Via = traced(r, observe.Gate)
	}
	if s.N, err = q.units(); err != nil {
		return 0, err
	}
	if denial, err = q.deny(); err != nil {
		return 0, err
	}
	if a.GateID != "" {
		if s.ID, _, err = readIDField(r.Header, a.GateID); err != nil {
			return 0, err
		}
	}
	if !a.proxyWarned.Load() {
		a.warnOfProxy(r, s)
	}
	return denial, nil
}

// warnOfProxy logs the first gate call that counts by a private address although a header field
// has a public one. The calling proxy then passes the address of another proxy, and all clients
// behind that proxy share a history. The log line contains no address.
func (a *API) warnOfProxy(r *http.Request, s *scratch) {
	for i, name := range s.to.Dimensions() {
		if !clientaddr.IsPrivateText(s.Key.Value(i)) {
			continue
		}
		field := clientaddr.ForwardedClient(r.Header)
		if field == "" || a.proxyWarned.Swap(true) {
			return
		}
		a.logGate(fmt.Sprintf("policy %q counts %s by a private address, "+
			"while %s has that of a client on the Internet; "+
			"if a proxy stands in front of the one that calls the gate, "+
			"all its clients share one history: "+
			"let the calling proxy trust it (nginx: set_real_ip_from and real_ip_header) "+
			"and send the client's address", s.policy, name, field))
	}
}

// writeGate writes the decision of a gate call.
func (a *API) writeGate(w http.ResponseWriter, s *scratch, denial int) {
	h := w.Header()
	o := &s.outcome
	if o.Applied.Shadow { // a client that is shown a limit would obey it
		would := "denied"
		if o.Applied.Would.Allowed {
			would = "allowed"
		}
		h["Weir-Shadow"] = []string{would}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	made := weirhttp.Outcome{Outcome: weir.Outcome{
		Decision: o.Decision,
		Rules:    o.Limiter.Compiled(),
		Key:      s.Key,
		N:        s.N,
		States:   s.States,
		Units:    o.Units,
		Blocked:  o.Applied.Blocked,
	}}
	h["RateLimit-Policy"] = fieldOf(s.to, o)
	if v := fields.RateLimit(&made.Outcome); v != "" {
		h["RateLimit"] = []string{v}
	}
	if made.Decision.Allowed {
		if o.Applied.Warnings != nil {
			h["Weir-Warning"] = []string{strings.Join(o.Applied.Warnings, ", ")}
		}
		if made.Decision.Granted < made.N {
			h["Weir-Granted"] = []string{strconv.FormatInt(made.Decision.Granted, 10)}
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	harden(h)
	if seconds, ok := fields.RetryAfter(&made.Outcome); ok {
		h["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
	}
	made.WriteProblem(w, denial)
}

// fieldOf returns the RateLimit-Policy field for the limits that decided an outcome.
func fieldOf(r *enforce.Rule, o *enforce.Outcome) []string {
	compiled := o.Limiter.Compiled()
	if of := calls.Of(r); of != nil && compiled == r.Compiled {
		return of.Field
	}
	return []string{fields.Policy(compiled)}
}

// logGate logs a rejected gate call: a proxy hides the answer from its operator.
func (a *API) logGate(reason string) { a.GateLog.Line(slog.LevelWarn, "gate: "+reason) }

// reasonFor returns the reason why a gate call was rejected. It contains no values of the key.
func (s *scratch) reasonFor(err error) string {
	if s.to == nil {
		return err.Error()
	}
	prefix := "policy " + strconv.Quote(s.policy)
	reason := "the request is not valid"
	var p *calls.Problem
	var bad *engine.InputError
	switch {
	case errors.As(err, &p):
		reason = cmp.Or(p.Log, p.Detail)
	case errors.As(err, &bad) && bad.Field == "key": // the text names dimensions and no values
		reason = bad.Problem
		if strings.HasPrefix(reason, prefix) {
			return reason
		}
	}
	return prefix + ": " + reason
}

// These are prefixes of names in a query. The last two are for proxies that cannot write a value
// into the query. They name the header field with the value, such as header.user=X-User and
// address.ip=X-Forwarded-For. A dimension called header.user is written key.header.user.
const (
	keyPrefix     = "key."     // a dimension, even if its name is reserved: key.n=5
	headerPrefix  = "header."  // the value is in a header field
	addressPrefix = "address." // the value is the last address in a header field
)

// parseKey finds the policy that the path of a gate names, and reads the key from the query.
func (a *API) parseKey(r *http.Request, s *scratch, q *query) (err error) {
	s.policy = strings.TrimPrefix(r.URL.Path, gatePath)
	if s.to, err = a.ruleOf(&s.call, calls.ErrMissing); err != nil {
		return err
	}
	q.rule = s.to
	q.key = s.key
	err = q.parse(r.URL.RawQuery)
	s.key = q.key
	if err == nil {
		s.Target, err = s.to.Target(s.key)
	}
	return err
}

// parseOneKey reads the key and the limits of a call about one key from the query. It finds the
// policy that the path names.
func (a *API) parseOneKey(r *http.Request, s *scratch) error {
	s.policy = strings.TrimPrefix(r.URL.Path, keysPath)
	q := query{ofKey: true, key: s.key}
	err := q.parse(r.URL.RawQuery)
	s.key = q.key // also after an error, for release
	s.Limits = q.limits
	s.lines = q.lines
	if err != nil {
		return err
	}
	if s.to, err = a.ruleOf(&s.call, calls.ErrMissing); err != nil {
		return err
	}
	switch {
	case s.Op == engine.Reset:
		s.Target, err = s.to.ResetTarget(s.key, s.Limits)
	case s.Limits != nil:
		err = calls.BadInput("query: limit is for a reset, and this call shows all limits; "+
			"leave it out (a dimension of that name is written %slimit)", keyPrefix)
	default:
		s.Target, err = s.to.Target(s.key)
	}
	return err
}

// query is the parsed query of a URL.
type query struct {
	rule     *enforce.Rule
	gate     *http.Request // a gate call, with the header of the two prefixes; nil for other calls
	ofKey    bool          // a call about one key; it may have limits
	reserved []string      // names of settings
	key      enforce.Pairs
	settings map[string]string // the given settings
	limits   []string          // with ofKey: the limits to reset
	lines    []string          // with ofKey: the limits of an inline policy
	noPlan   bool              // the field with the value that chooses a plan is missing
}

// parse reads name=value&…, in which every name that is not reserved is a dimension.
// Names and values are form-encoded: %XX, and + for a space. A part without =, a bad escape and a
// repeated name are errors. A client that can append text to a proxy's query can therefore make a
// call fail, but cannot choose another key.
func (q *query) parse(raw string) error {
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		if err := q.add(part); err != nil {
			return err
		}
	}
	return nil
}

// add adds a part of the query, name=value.
func (q *query) add(part string) error {
	name, value, err := splitPart(part)
	switch {
	case err != nil:
		return err
	case q.ofKey && name == limitSetting:
		q.limits = append(q.limits, value)
		return nil
	case q.ofKey && name == linesSetting:
		q.lines = append(q.lines, value)
		return nil
	case slices.Contains(q.reserved, name):
		return q.addSetting(name, value)
	case q.gate == nil:
		return q.addDimension(name, value)
	case q.lacksPlan(name, value):
		return q.addNoPlan()
	}
	if name, value, err = q.fromHeader(name, value); err != nil {
		return err
	}
	if err := q.addDimension(name, value); err != nil {
		return err
	}
	if q.noPlan && q.hasPlan() {
		return q.planTwice()
	}
	return nil
}

// splitPart returns the name and the value of a part of a query, without escapes.
func splitPart(part string) (name, value string, err error) {
	name, value, ok := strings.Cut(part, "=")
	if !ok {
		return "", "", &calls.Problem{
			Err:    weir.ErrInput,
			Log:    "query: a part has no =",
			Detail: "query: " + answer.Shown(part) + " has no =; write dimension=value",
		}
	}
	name, err = url.QueryUnescape(name)
	if err == nil {
		value, err = url.QueryUnescape(value)
	}
	if err != nil {
		const next = "; write a percent sign as %25"
		return "", "", &calls.Problem{
			Err:    weir.ErrInput,
			Log:    "query: a % begins no escape" + next,
			Detail: "query: " + answer.Shown(part) + " holds a % that begins no escape" + next,
		}
	}
	return name, value, nil
}

// addSetting adds a setting.
func (q *query) addSetting(name, value string) error {
	if _, twice := q.settings[name]; twice {
		return calls.BadInput("query: %s is given twice; give it once "+
			"(a dimension of that name is written %s%[1]s)", name, keyPrefix)
	}
	if q.settings == nil {
		q.settings = map[string]string{}
	}
	q.settings[name] = value
	return nil
}

// addDimension adds the value of a dimension to the key.
func (q *query) addDimension(name, value string) error {
	key, problem := q.key.Add(strings.TrimPrefix(name, keyPrefix), value)
	if problem != "" {
		return calls.BadInput("query: %s", problem)
	}
	q.key = key
	return nil
}

// addNoPlan notes that the field with the value that chooses a plan is missing.
func (q *query) addNoPlan() error {
	if q.noPlan || q.hasPlan() {
		return q.planTwice()
	}
	q.noPlan = true
	return nil
}

// hasPlan reports whether the query has given the value that chooses a plan.
func (q *query) hasPlan() bool {
	return slices.ContainsFunc(q.key, func(v enforce.Pair) bool { return v.Name == q.rule.PlanBy })
}

func (q *query) planTwice() error {
	return calls.BadInput("query: %s is given twice; give it once", q.rule.PlanBy)
}

// lacksPlan reports whether the value that chooses a plan should be in a header field, and the
// request has no such field. Such a request has no plan, because a gateway sets the field only for
// callers with a plan.
func (q *query) lacksPlan(name, field string) bool {
	dimension, ok := strings.CutPrefix(name, headerPrefix)
	if !ok || dimension == "" || dimension != q.rule.PlanBy {
		return false
	}
	if slices.Contains(q.rule.Compiled.Dimensions, dimension) {
		return false // the key needs the value
	}
	lines := q.fieldLines(field)
	return len(lines) == 0 || len(lines) == 1 && lines[0] == ""
}

// fieldLines returns the lines of a header field. net/http stores Host outside of the header.
func (q *query) fieldLines(field string) []string {
	if strings.EqualFold(field, "Host") {
		return []string{q.gate.Host}
	}
	return q.gate.Header.Values(field)
}

// These are the reserved names in the query of a call about one key.
const (
	limitSetting = "limit"  // a limit to reset
	linesSetting = "limits" // a limit of an inline policy
)

// gateSettings are the reserved names in the query of a gate.
var gateSettings = []string{"deny", "n"}

// units returns the setting n: 1 … weir.MaxUnits, default 1. With 0 a request would pass without a
// charge, and a client that can append text to a proxy's query could append n=0.
func (q *query) units() (int64, error) {
	v, ok := q.settings["n"]
	if !ok {
		return 1, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	isSpelledOddly := v == "" || v[0] == '+' || v[0] == '0'
	if err != nil || isSpelledOddly || n < 1 || n > weir.MaxUnits {
		return 0, calls.BadInput("query: n must be a whole number, 1 to %d, not %s; "+
			"to look without counting, POST /v1/peek", weir.MaxUnits, answer.Shown(v))
	}
	return n, nil
}

// deny returns the status of a denial: 429, or 403 with the setting deny=403. nginx
// needs 403: it turns every other denial of auth_request into 500.
func (q *query) deny() (int, error) {
	switch v, ok := q.settings["deny"]; {
	case !ok, v == "429":
		return http.StatusTooManyRequests, nil
	case v == "403":
		return http.StatusForbidden, nil
	default:
		return 0, calls.BadInput("query: deny must be 403 or 429, not %s", answer.Shown(v))
	}
}

// fromHeader returns the value of a header field, if name has a prefix that requires it. A field
// that is missing, empty or repeated is an error, because such requests must not share a history
// or choose one.
func (q *query) fromHeader(name, value string) (dimension, found string, err error) {
	dimension, address := strings.CutPrefix(name, addressPrefix)
	if !address {
		var header bool
		if dimension, header = strings.CutPrefix(name, headerPrefix); !header {
			return name, value, nil
		}
	}
	lines := q.fieldLines(value)
	if len(lines) == 0 || lines[len(lines)-1] == "" {
		return "", "", calls.BadInput("the request has no header field %s, "+
			"in which the value of %s must stand", answer.Shown(value), answer.Shown(dimension))
	}
	if address {
		client, ok := lastAddress(lines[len(lines)-1])
		if !ok {
			return "", "", calls.BadInput("the header field %s does not end with an IP address; "+
				"the proxy must append that of its client", answer.Shown(value))
		}
		return keyPrefix + dimension, q.addressText(dimension, client), nil
	}
	if len(lines) > 1 {
		return "", "", calls.BadInput("the header field %s is there more than once; "+
			"the proxy must set it, not add to it", answer.Shown(value))
	}
	return keyPrefix + dimension, lines[0], nil
}

// lastAddress returns the last address of a list. The calling proxy has added it. A client may have
// invented the others.
func lastAddress(list string) (netip.Addr, bool) {
	last := list[strings.LastIndexByte(list, ',')+1:]
	return clientaddr.ParseNode(strings.TrimSpace(last))
}

// addressText returns the value of a dimension for an address. It is the form of weirhttp.ClientIP,
// or the whole address if the policy itself converts addresses.
func (q *query) addressText(dimension string, a netip.Addr) string {
	if _, has := q.rule.Addresses[dimension]; has {
		return a.String()
	}
	return clientaddr.Key(a, clientaddr.Bits)
}
