package server

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/observe"
	"github.com/weirlimit/weir/internal/topkeys"
)

// TopKeys says what GET /v1/top tells of the keys that are denied most.
type TopKeys uint8

// What there is to tell.
const (
	TopShown  TopKeys = iota // the values of keys
	TopHashed                // hashes of them, by a secret that ends with the process
	TopOff                   // nothing: no key is kept
)

// String is the word for it.
func (k TopKeys) String() string { return [...]string{"shown", "hashed", "off"}[k] }

// ParseTopKeys is the other way round.
func ParseTopKeys(word string) (TopKeys, error) {
	for k := TopShown; k <= TopOff; k++ {
		if word == k.String() {
			return k, nil
		}
	}
	return 0, fmt.Errorf("there are shown, hashed and off, not %q", word)
}

// Bounds of the sketches: a policy has mostSlots counters, or fewer where there are
// so many policies that all together would have more than allSlots.
const (
	mostSlots  = 512
	leastSlots = 32
	allSlots   = 100_000
)

// Bounds of n of GET /v1/top.
const (
	usualTop = 10
	mostTop  = 1000
)

// newTop returns the sketch of one of so many policies; before, which may be nil, is
// what the policy was until now. A sketch of keys of other dimensions is dropped.
func (s *Server) newTop(e, before *entry, policies int) *topkeys.Sketch {
	if s.config.TopKeys == TopOff {
		return nil
	}
	if before != nil && slices.Equal(before.Dimensions(), e.Dimensions()) {
		return before.top
	}
	return s.newSketch(policies)
}

// newSketch returns a sketch, which is one of so many.
func (s *Server) newSketch(of int) *topkeys.Sketch {
	form := topkeys.Shown
	if s.config.TopKeys == TopHashed {
		form = topkeys.Hashed
	}
	return topkeys.New(min(mostSlots, max(leastSlots, allSlots/max(of, 1))), form)
}

// topShown is the answer to GET /v1/top.
type topShown struct {
	At       string        `json:"at"`
	Keys     string        `json:"keys"`            // shown, hashed or off
	Since    string        `json:"since,omitempty"` // from when on denials are counted, those of the last ten to twenty minutes
	Top      []keyShown    `json:"top"`             // first those that were surely denied most
	Policies []policyCalls `json:"policies"`        // those that were called, in the order of the file

	n     int       // as many keys are wanted
	now   time.Time // of At
	since time.Time // of Since
}

// keyShown is one key that was denied.
type keyShown struct {
	Policy  string            `json:"policy"`         // or the domain of an Envoy configuration, and then
	Rule    string            `json:"rule,omitempty"` // the rule of it
	Key     map[string]string `json:"key"`
	Clipped bool              `json:"clipped,omitempty"` // a value is longer than shown
	Denials int64             `json:"denials"`           // never too few
	Error   int64             `json:"error"`             // up to so many of them are of other keys
}

// policyCalls is what became of calls since the start.
type policyCalls struct {
	Policy    string `json:"policy"`
	Allowed   int64  `json:"allowed"` // in full or in part
	Denied    int64  `json:"denied"`
	WouldDeny int64  `json:"would_deny"`
	Errors    int64  `json:"errors"`
}

// serveTop answers which keys are denied most: personal data, so it is for operators.
func (s *Server) serveTop(w http.ResponseWriter, r *http.Request) {
	asked, err := s.topAsked(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, err)
		return
	}
	now := time.Now()
	a := topShown{At: stamp(now), Keys: s.config.TopKeys.String(), Top: []keyShown{}, Policies: []policyCalls{},
		n: asked.n, now: now}
	for _, e := range asked.entries {
		a.addCalls(e)
		if e.top != nil {
			a.addKeys(e.top, keyShown{Policy: e.Name}, e.Dimensions())
		}
	}
	s.envoy.EachRuleDenials(func(d envoy.RuleDenials) {
		if asked.domain == "" && asked.all || asked.domain == d.Domain {
			a.addKeys(d.Sketch, keyShown{Policy: d.Domain, Rule: d.Rule}, d.Names)
		}
	})
	slices.SortStableFunc(a.Top, func(x, y keyShown) int {
		return cmp.Or(cmp.Compare(y.Denials-y.Error, x.Denials-x.Error), cmp.Compare(y.Denials, x.Denials), cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Rule, y.Rule))
	})
	a.Top = a.Top[:min(asked.n, len(a.Top))]
	if !a.since.IsZero() {
		a.Since = stamp(a.since)
	}
	writeJSON(w, http.StatusOK, marshal(a))
}

// topAsked is what GET /v1/top asks for.
type topAsked struct {
	n       int
	all     bool     // of whatever there is
	entries []*entry // of these policies
	domain  string   // of this domain of an Envoy configuration; "" = of none, or of all
}

// topAsked reads ?policy=…&n=….
func (s *Server) topAsked(raw string) (a topAsked, err error) {
	var q query
	if err := q.parse(raw, []string{"policy", "n"}); err != nil {
		return a, err
	}
	if q.key.n > 0 {
		return a, badInput("query: unknown name " + answer.Shown(q.key.at(0).name) + "; there are policy and n")
	}
	a.n = usualTop
	if text, ok := q.settings["n"]; ok {
		if a.n, err = strconv.Atoi(text); err != nil || a.n < 0 || a.n > mostTop {
			return a, badInput("query: n must be a whole number, 0 to " + strconv.Itoa(mostTop) + ", not " + answer.Shown(text))
		}
	}
	name, ok := q.settings["policy"]
	switch {
	case !ok:
		a.all, a.entries = true, s.serving.Load().entries
		return a, nil
	case s.rules.Load().Domain(name) != nil:
		a.domain = name
		return a, nil
	}
	e, err := s.find(name, http.StatusNotFound)
	a.entries = []*entry{e}
	return a, err
}

func (a *topShown) addCalls(e *entry) {
	c := policyCalls{
		Policy:    e.Name,
		Allowed:   e.counts.Calls(observe.Allowed) + e.counts.Calls(observe.Partial),
		Denied:    e.counts.Calls(observe.Denied),
		WouldDeny: e.counts.Calls(observe.WouldDeny),
		Errors:    e.counts.Calls(observe.Error),
	}
	if c != (policyCalls{Policy: e.Name}) {
		a.Policies = append(a.Policies, c)
	}
}

// addKeys adds the keys of a sketch, whose values have those names. like says whose
// they are.
func (a *topShown) addKeys(sketch *topkeys.Sketch, like keyShown, names []string) {
	report := sketch.Top(a.n, a.now)
	if !report.Since.IsZero() && (a.since.IsZero() || report.Since.Before(a.since)) {
		a.since = report.Since
	}
	for i := range report.Top {
		t, k := &report.Top[i], like
		k.Key, k.Clipped, k.Denials, k.Error = map[string]string{}, t.Clipped, t.Denials, t.Error
		for i, name := range names {
			k.Key[name] = t.Values[i]
		}
		a.Top = append(a.Top, k)
	}
}
