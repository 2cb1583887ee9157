package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/problemdoc"
	"github.com/weirlimit/weir/policy"
)

// PolicyList is the answer to GET /v1/policies, in the order of the file.
type PolicyList struct {
	Policies []policyShown `json:"policies"`
}

type policyShown struct {
	Name       string       `json:"name"`
	About      string       `json:"about,omitempty"`
	Mode       string       `json:"mode"`
	Dimensions []string     `json:"dimensions" jsonschema:"the names that a key must hold"`
	Limits     []limitShown `json:"limits"`

	Addresses map[string]int `json:"addresses,omitempty" jsonschema:"by dimension: the bits of the IPv6 prefix that counts as one client"`
	Shadow    bool           `json:"shadow,omitempty" jsonschema:"decided and counted, but not enforced"`
	MaxWait   int64          `json:"max_wait_ms,omitempty" jsonschema:"the longest max_wait_ms of a caller; missing = the longest window"`
	Count     string         `json:"count,omitempty" jsonschema:"reported if only reports are charged"`
	PlanBy    string         `json:"plan_by,omitempty" jsonschema:"a further name that a key may hold, to choose a plan"`
	Plans     []planShown    `json:"plans,omitempty"`
	Overrides int            `json:"overrides,omitempty" jsonschema:"number of overrides, of the file and of the store; their keys are not shown"`
}

// planShown is a plan with the limits that it changes.
type planShown struct {
	Name   string       `json:"name"`
	Limits []limitShown `json:"limits"`
}

type limitShown struct {
	Name        string   `json:"name"`
	Sentence    string   `json:"sentence"`
	Worst       string   `json:"worst_case,omitempty" jsonschema:"the most units in the length of a window, in words; of plans it is missing"`
	Max         int64    `json:"max" jsonschema:"units per window; of a concurrency limit, units in use"`
	Units       string   `json:"units,omitempty" jsonschema:"the word for its units"`
	WindowMS    int64    `json:"window_ms" jsonschema:"milliseconds, rounded up; of a period its usual length, of a month 31 days"`
	MinInterval int64    `json:"min_interval_ms,omitempty" jsonschema:"the least time between two grants, milliseconds, rounded up"`
	BlockMS     int64    `json:"block_ms,omitempty" jsonschema:"how long a denial blocks the key, milliseconds, rounded up"`
	Warn        int      `json:"warn_percent,omitempty" jsonschema:"the share of max at which a grant carries a warning"`
	By          []string `json:"by" jsonschema:"the dimensions that it counts by"`
	Kind        string   `json:"kind" jsonschema:"rolling, fixed, fixed_from_first, bucket or concurrency"`
	Burst       int64    `json:"burst,omitempty" jsonschema:"of a bucket: its capacity in units"`
	Period      string   `json:"period,omitempty" jsonschema:"of a fixed window of the wall clock: hour, day, week or month"`
	Zone        string   `json:"zone,omitempty" jsonschema:"with period: the time zone of the clock"`
	Anchor      int      `json:"anchor,omitempty" jsonschema:"with period: the first day of a month, or of a week, 1 = Monday; missing = 1"`
	MaxHold     int64    `json:"max_hold_ms,omitempty" jsonschema:"of a concurrency limit: the longest hold, milliseconds, rounded up"`
	Cells       int      `json:"cells,omitempty"`
	Cost        int64    `json:"cost,omitempty" jsonschema:"units that every attempt takes, whatever n is"`
}

func (a *API) servePolicies(w http.ResponseWriter, _ *http.Request) {
	list := PolicyList{[]policyShown{}}
	stored := a.Overrides.InForce()
	for _, p := range a.Policies().Rules {
		shown := showPolicy(p)
		shown.Overrides += int(stored[p.Name])
		list.Policies = append(list.Policies, shown)
	}
	writeJSON(w, http.StatusOK, marshal(list))
}

func showPolicy(e *enforce.Rule) policyShown {
	p := policyShown{
		Name:       e.Name,
		About:      e.About,
		Mode:       e.Mode.String(),
		Dimensions: append([]string{}, e.Compiled.Dimensions...),
		Addresses:  e.Addresses,
		Shadow:     e.Shadow,
		MaxWait:    answer.Millis(e.MaxWait),
		PlanBy:     e.PlanBy,
		Overrides:  len(e.Overrides),
	}
	if e.Reported {
		p.Count = "reported"
	}
	for i := range e.Limits {
		limit := showLimit(e.Definition, i)
		limit.Worst = worst(e, i)
		p.Limits = append(p.Limits, limit)
	}
	for _, plan := range e.Plans {
		shown := planShown{Name: plan.Name}
		changed := e.With(plan.Changes)
		for _, c := range plan.Changes {
			shown.Limits = append(shown.Limits, showLimit(changed, c.Limit))
		}
		p.Plans = append(p.Plans, shown)
	}
	return p
}

func showLimit(p *policy.Definition, i int) limitShown {
	l := &p.Limits[i]
	shown := limitShown{
		Name:        l.Name,
		Sentence:    p.Sentence(i),
		Max:         l.Max,
		WindowMS:    answer.Millis(l.Window + l.MaxHold), // one of the two is 0
		MinInterval: answer.Millis(l.MinInterval),
		BlockMS:     answer.Millis(l.Block),
		Warn:        definition.WarnAt(p, i),
		By:          append([]string{}, l.By...),
		Kind:        answer.KindWords[l.Kind],
		MaxHold:     answer.Millis(l.MaxHold),
		Cells:       l.Cells,
		Cost:        l.Cost,
	}
	if i < len(p.Units) {
		shown.Units = p.Units[i]
	}
	if answer.IsBucket(l.Kind) {
		shown.Burst = cmp.Or(l.Burst, l.Max)
	}
	if l.Period != weir.NoPeriod {
		shown.WindowMS = answer.Millis(l.Period.Length())
		shown.Period = l.Period.String()
		shown.Zone = cmp.Or(l.Zone, "UTC")
		if l.Anchor > 1 {
			shown.Anchor = l.Anchor
		}
	}
	return shown
}

// reloaded is the answer to POST /v1/reload.
type reloaded struct {
	Generation int64 `json:"generation"`
	Policies   int   `json:"policies" jsonschema:"number of policies"`
	Limits     int   `json:"limits" jsonschema:"number of limits of all policies"`
}

// serveReload reads the policy file again, as SIGHUP does. It then answers 200, or 422 with the
// fault of the file. After a fault the older policies stay in force.
func (a *API) serveReload(w http.ResponseWriter, _ *http.Request) {
	if a.Reread == nil {
		problemdoc.Write(w, http.StatusConflict,
			"there is no file of policies to read again; start weir serve with --policies FILE")
		return
	}
	if err := a.Reread(); err != nil {
		detail := "the policies in force stay: " + err.Error()
		problemdoc.Write(w, http.StatusUnprocessableEntity, detail)
		return
	}
	set := a.Policies()
	writeJSON(w, http.StatusOK, marshal(reloaded{set.Generation, len(set.Rules), set.Limits}))
}

// EnvoyStatus is the Envoy configuration in force; nil if there is none.
type EnvoyStatus struct {
	Source  string `json:"source"`
	Domains int    `json:"domains"`
	Rules   int    `json:"rules"`
	Failed  bool   `json:"last_reload_failed,omitempty"`
}

// liveness is the answer to GET /livez.
type liveness struct {
	Live bool `json:"live"`
}

// serveLive reports that the process answers. It does not call the store, because an outage must
// not restart every weir.
func (a *API) serveLive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, marshal(liveness{true}))
}

// Readiness is the answer to GET /readyz. A caller without credentials gets Ready only.
type Readiness struct {
	Ready      bool         `json:"ready"`
	Why        string       `json:"why,omitempty" jsonschema:"the reason if ready is false"`
	Policies   int          `json:"policies" jsonschema:"number of policies"`
	Limits     int          `json:"limits" jsonschema:"number of limits of all policies"`
	Store      string       `json:"store"`
	StoreDown  string       `json:"store_down,omitempty" jsonschema:"the reason why the store is unavailable"`
	Source     string       `json:"source" jsonschema:"the policy file"`
	Generation int64        `json:"generation" jsonschema:"of the policies: 1 at the start, one more with every reload"`
	Since      string       `json:"since" jsonschema:"the instant at which these policies came into force, RFC 3339"`
	Reload     *Reload      `json:"last_reload,omitempty"`
	Envoy      *EnvoyStatus `json:"envoy,omitempty" jsonschema:"the configuration of Envoy's rate limit service"`
}

// Reload is the last reload.
type Reload struct {
	OK    bool   `json:"ok"`
	At    string `json:"at" jsonschema:"RFC 3339"`
	Error string `json:"error,omitempty"`
}

// serveReady reports the policies in force: 200, or 503 while the server drains. After a failed
// reload it still answers 200, because the older policies are in force, and taking all servers out
// of service would be worse. In an outage of the store it answers 200 as well, because
// when-store-is-down then decides.
func (a *API) serveReady(w http.ResponseWriter, _ *http.Request) {
	now := a.Status()
	writeReady(w, now.Ready, marshal(now))
}

// serveReadyBriefly reports only whether the server is ready, because probes of a platform have no
// token.
func (a *API) serveReadyBriefly(w http.ResponseWriter) {
	ready := a.Status().Ready
	writeReady(w, ready, fmt.Appendf(nil, "{\"ready\":%t}\n", ready))
}

func writeReady(w http.ResponseWriter, ready bool, body []byte) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}

func (a *API) serveMetrics(w http.ResponseWriter, r *http.Request) { a.Metrics.ServeHTTP(w, r) }

// These are the bounds of n in GET /v1/top.
const (
	defaultTop = 10
	maxTop     = 1000
)

// TopList is the answer to GET /v1/top.
type TopList struct {
	At       string        `json:"at" jsonschema:"the instant of the answer, RFC 3339"`
	Keys     string        `json:"keys" jsonschema:"shown, hashed or off, by --top-keys"`
	Since    string        `json:"since,omitempty" jsonschema:"the beginning of the counts of keys, at most 20 minutes ago"`
	Top      []keyShown    `json:"top" jsonschema:"the keys with the most certain denials first"`
	Used     []keyUsed     `json:"used" jsonschema:"the keys with the most calls that were allowed, in the same time"`
	Sample   int64         `json:"used_sample,omitempty" jsonschema:"the uses of a busy policy are estimates by one call in so many at least"`
	Policies []policyCalls `json:"policies" jsonschema:"the policies with calls, in the order of the file"`

	n     int       // most keys of a list
	now   time.Time // At
	since time.Time // Since
}

type keyShown struct {
	Policy  string            `json:"policy" jsonschema:"or the domain of an Envoy configuration"`
	Rule    string            `json:"rule,omitempty" jsonschema:"the rule of that domain"`
	Key     map[string]string `json:"key"`
	Clipped bool              `json:"clipped,omitempty" jsonschema:"a value is longer than shown"`
	Denials int64             `json:"denials" jsonschema:"never too low"`
	Error   int64             `json:"error" jsonschema:"the most by which denials is too high"`

	Override bool `json:"override,omitempty" jsonschema:"an override of the store or of the file applies to the key now; not known of hashed and clipped keys"`
}

type keyUsed struct {
	Policy  string            `json:"policy"`
	Key     map[string]string `json:"key"`
	Clipped bool              `json:"clipped,omitempty" jsonschema:"a value is longer than shown"`
	Uses    int64             `json:"uses" jsonschema:"never too low, unless it is an estimate"`
	Error   int64             `json:"error" jsonschema:"the most by which uses is too high"`

	Override bool `json:"override,omitempty" jsonschema:"as in top"`
}

// PolicyCalls counts calls since the start. In openapi.json it has no name.
type PolicyCalls = policyCalls

type policyCalls struct {
	Policy    string `json:"policy"`
	Allowed   int64  `json:"allowed" jsonschema:"in full or in part"`
	Denied    int64  `json:"denied"`
	WouldDeny int64  `json:"would_deny" jsonschema:"allowed by a shadow policy that would have denied them"`
	Errors    int64  `json:"errors"`
}

// serveTop answers with the keys that are denied most, by ?policy=…&n=…. They are personal
// data, so the call is for operators.
func (a *API) serveTop(w http.ResponseWriter, r *http.Request) {
	q := query{reserved: []string{"policy", "n"}}
	n, err := parseTop(&q, r.URL.RawQuery)
	if err != nil {
		a.reject(w, err)
		return
	}
	name, one := q.settings["policy"]
	rules, err := a.rulesOf(name, one)
	if err != nil {
		a.reject(w, err)
		return
	}
	now := time.Now()
	list := TopList{
		At:       Stamp(now),
		Keys:     a.TopKeys.String(),
		Top:      []keyShown{},
		Used:     []keyUsed{},
		Policies: []policyCalls{},
		n:        n,
		now:      now,
	}
	for _, p := range rules {
		seen := calls.Of(p)
		if c := countCalls(p.Name, seen); c != (policyCalls{Policy: p.Name}) {
			list.Policies = append(list.Policies, c)
		}
		if seen.Top != nil {
			list.addKeys(seen.Top, keyShown{Policy: p.Name}, p.Dimensions())
			list.addUsed(seen.Used, p.Name, p.Dimensions())
		}
	}
	a.Envoy.EachRuleDenials(func(domain, rule string, names []string, top *topkeys.Sketch) {
		if !one || name == domain {
			list.addKeys(top, keyShown{Policy: domain, Rule: rule}, names)
		}
	})
	list.cut()
	a.markOverrides(&list)
	writeJSON(w, http.StatusOK, marshal(list))
}

// markOverrides marks the keys to which an override applies.
func (a *API) markOverrides(list *TopList) {
	if a.TopKeys != topkeys.Shown {
		return
	}
	byName := map[string]*enforce.Rule{} // without inline policies, which have no overrides
	for _, rule := range a.Policies().Rules {
		byName[rule.Name] = rule
	}
	for i := range list.Top {
		k := &list.Top[i]
		k.Override = k.Rule == "" && !k.Clipped && hasOverride(byName[k.Policy], k.Key)
	}
	for i := range list.Used {
		k := &list.Used[i]
		k.Override = !k.Clipped && hasOverride(byName[k.Policy], k.Key)
	}
}

// hasOverride reports whether an override of the file or of the store applies to a key of a rule. A
// nil rule has none.
func hasOverride(rule *enforce.Rule, key map[string]string) bool {
	if rule == nil {
		return false
	}
	var values []string
	for _, name := range rule.Dimensions() {
		values = append(values, key[name])
	}
	return rule.HasOverride(engine.K(values...))
}

// parseTop parses the query of GET /v1/top and returns n.
func parseTop(q *query, raw string) (n int, err error) {
	if err := q.parse(raw); err != nil {
		return 0, err
	}
	if len(q.key) > 0 {
		other := answer.Shown(q.key[0].Name)
		return 0, calls.BadInput("query: unknown name %s; there are policy and n", other)
	}
	text, ok := q.settings["n"]
	if !ok {
		return defaultTop, nil
	}
	if n, err = strconv.Atoi(text); err != nil || n < 0 || n > maxTop {
		return 0, calls.BadInput("query: n must be a whole number, 0 to %d, not %s",
			maxTop, answer.Shown(text))
	}
	return n, nil
}

// countCalls returns the counts of a policy.
func countCalls(policy string, seen *calls.Rule) policyCalls {
	n := seen.Totals()
	return policyCalls{
		Policy:    policy,
		Allowed:   n.Allowed,
		Denied:    n.Denied,
		WouldDeny: n.WouldDeny,
		Errors:    n.Errors,
	}
}

// cut sorts the keys and keeps the first n of each list, those with the most certain counts.
func (list *TopList) cut() {
	slices.SortStableFunc(list.Top, func(x, y keyShown) int {
		return cmp.Or(
			cmp.Compare(y.Denials-y.Error, x.Denials-x.Error),
			cmp.Compare(y.Denials, x.Denials),
			cmp.Compare(x.Policy, y.Policy),
			cmp.Compare(x.Rule, y.Rule),
		)
	})
	list.Top = list.Top[:min(list.n, len(list.Top))]
	slices.SortStableFunc(list.Used, func(x, y keyUsed) int {
		return cmp.Or(
			cmp.Compare(y.Uses-y.Error, x.Uses-x.Error),
			cmp.Compare(y.Uses, x.Uses),
			cmp.Compare(x.Policy, y.Policy),
		)
	})
	list.Used = list.Used[:min(list.n, len(list.Used))]
	if !list.since.IsZero() {
		list.Since = Stamp(list.since)
	}
}

// rulesOf returns all policies, the inline ones last. If one is set, it returns only the policy
// with that name, or none for a domain of an Envoy configuration.
func (a *API) rulesOf(name string, one bool) ([]*enforce.Rule, error) {
	switch {
	case !one:
		return a.Rules(), nil
	case a.HasDomain(name):
		return nil, nil
	}
	for _, p := range a.Inline.Rules() {
		if p.Name == name {
			return []*enforce.Rule{p}, nil
		}
	}
	p, err := a.Policies().Rule(name)
	if err != nil {
		return nil, calls.NoPolicy(err, calls.ErrMissing, listPolicies)
	}
	return []*enforce.Rule{p}, nil
}

// addKeys adds the denied keys of a sketch. names are the names of their values. like has the other
// members of each.
func (list *TopList) addKeys(sketch *topkeys.Sketch, like keyShown, names []string) {
	report := sketch.Top(list.n, list.now)
	list.began(report.Since)
	for i := range report.Top {
		top := &report.Top[i]
		shown := like
		shown.Clipped = top.Clipped
		shown.Denials = top.Count
		shown.Error = top.Error
		shown.Key = keyOf(names, top.Values)
		list.Top = append(list.Top, shown)
	}
}

// addUsed adds the used keys of a policy.
func (list *TopList) addUsed(sketch *topkeys.Sketch, policy string, names []string) {
	report := sketch.Top(list.n, list.now)
	list.began(report.Since)
	if report.Weight > 1 {
		list.Sample = max(list.Sample, report.Weight)
	}
	for i := range report.Top {
		top := &report.Top[i]
		list.Used = append(list.Used, keyUsed{
			Policy:  policy,
			Key:     keyOf(names, top.Values),
			Clipped: top.Clipped,
			Uses:    top.Count,
			Error:   top.Error,
		})
	}
}

// began sets Since to the beginning of a count if that is earlier. A zero time is ignored.
func (list *TopList) began(since time.Time) {
	if !since.IsZero() && (list.since.IsZero() || since.Before(list.since)) {
		list.since = since
	}
}

// keyOf joins the names and the values of a key.
func keyOf(names, values []string) map[string]string {
	key := map[string]string{}
	for i, name := range names {
		key[name] = values[i]
	}
	return key
}
