package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// Bounds of n of GET /v1/top.
const (
	defaultTop = 10
	maxTop     = 1000
)

// TopList is the answer to GET /v1/top.
type TopList struct {
	At       string        `json:"at" jsonschema:"the instant of the answer, RFC 3339"`
	Keys     string        `json:"keys" jsonschema:"shown, hashed or off, by --top-keys"`
	Since    string        `json:"since,omitempty" jsonschema:"the beginning of the count of denials, at most 20 minutes ago"`
	Top      []keyShown    `json:"top" jsonschema:"the keys with the most certain denials first"`
	Policies []policyCalls `json:"policies" jsonschema:"the policies with calls, in the order of the file"`

	n     int       // the most keys
	now   time.Time // the instant At
	since time.Time // the instant Since
}

type keyShown struct {
	Policy  string            `json:"policy" jsonschema:"or the domain of an Envoy configuration"`
	Rule    string            `json:"rule,omitempty" jsonschema:"the rule of that domain"`
	Key     map[string]string `json:"key"`
	Clipped bool              `json:"clipped,omitempty" jsonschema:"a value is longer than shown"`
	Denials int64             `json:"denials" jsonschema:"never too low"`
	Error   int64             `json:"error" jsonschema:"the most by which denials is too high"`
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
	err := q.parse(r.URL.RawQuery)
	if err == nil && len(q.key) > 0 {
		err = calls.BadInput("query: unknown name %s; there are policy and n", answer.Shown(q.key[0].Name))
	}
	n := defaultTop
	if text, ok := q.settings["n"]; ok && err == nil {
		if n, err = strconv.Atoi(text); err != nil || n < 0 || n > maxTop {
			err = calls.BadInput("query: n must be a whole number, 0 to %d, not %s", maxTop, answer.Shown(text))
		}
	}
	rules := a.Policies().Rules
	name, one := q.settings["policy"]
	if one && err == nil {
		rules = nil
		if !a.HasDomain(name) { // a domain of an Envoy configuration
			var p *enforce.Rule
			p, err = a.Policies().Rule(name)
			if rules = []*enforce.Rule{p}; err != nil {
				err = calls.NoPolicy(err, calls.ErrMissing, listPolicies)
			}
		}
	}
	if err != nil {
		a.reject(w, err)
		return
	}
	now := time.Now()
	list := TopList{At: Stamp(now), Keys: a.TopKeys.String(), Top: []keyShown{}, Policies: []policyCalls{}, n: n, now: now}
	for _, p := range rules {
		seen := calls.Of(p)
		c := policyCalls{
			Policy:    p.Name,
			Allowed:   seen.Calls(observe.Allowed) + seen.Calls(observe.Partial),
			Denied:    seen.Calls(observe.Denied),
			WouldDeny: seen.Calls(observe.WouldDeny),
			Errors:    seen.Calls(observe.Error),
		}
		if c != (policyCalls{Policy: p.Name}) {
			list.Policies = append(list.Policies, c)
		}
		if seen.Top != nil {
			list.addKeys(seen.Top, keyShown{Policy: p.Name}, p.Dimensions())
		}
	}
	a.Envoy.EachRuleDenials(func(domain, rule string, names []string, top *topkeys.Sketch) {
		if !one || name == domain {
			list.addKeys(top, keyShown{Policy: domain, Rule: rule}, names)
		}
	})
	slices.SortStableFunc(list.Top, func(x, y keyShown) int {
		return cmp.Or(cmp.Compare(y.Denials-y.Error, x.Denials-x.Error), cmp.Compare(y.Denials, x.Denials), cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Rule, y.Rule))
	})
	list.Top = list.Top[:min(n, len(list.Top))]
	if !list.since.IsZero() {
		list.Since = Stamp(list.since)
	}
	writeJSON(w, http.StatusOK, marshal(list))
}

// addKeys adds the keys of a sketch, with the names of their values. like holds the
// other members.
func (list *TopList) addKeys(sketch *topkeys.Sketch, like keyShown, names []string) {
	report := sketch.Top(list.n, list.now)
	if !report.Since.IsZero() && (list.since.IsZero() || report.Since.Before(list.since)) {
		list.since = report.Since
	}
	for i := range report.Top {
		t, k := &report.Top[i], like
		k.Key, k.Clipped, k.Denials, k.Error = map[string]string{}, t.Clipped, t.Denials, t.Error
		for i, name := range names {
			k.Key[name] = t.Values[i]
		}
		list.Top = append(list.Top, k)
	}
}
