package server

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/answer"
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
	form := topkeys.Shown
	if s.config.TopKeys == TopHashed {
		form = topkeys.Hashed
	}
	return topkeys.New(min(mostSlots, max(leastSlots, allSlots/policies)), form)
}

// topShown is the answer to GET /v1/top.
type topShown struct {
	At       string        `json:"at"`
	Keys     string        `json:"keys"`            // shown, hashed or off
	Since    string        `json:"since,omitempty"` // from when on denials are counted, those of the last ten to twenty minutes
	Top      []keyShown    `json:"top"`             // the most denied first
	Policies []policyCalls `json:"policies"`        // those that were called, in the order of the file
}

// keyShown is one key that was denied.
type keyShown struct {
	Policy  string            `json:"policy"`
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
	entries, n, err := s.topAsked(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, err)
		return
	}
	now := time.Now()
	a := topShown{At: stamp(now), Keys: s.config.TopKeys.String(), Top: []keyShown{}, Policies: []policyCalls{}}
	var since time.Time
	for _, e := range entries {
		a.addCalls(e)
		if e.top == nil {
			continue
		}
		report := e.top.Top(n, now)
		if !report.Since.IsZero() && (since.IsZero() || report.Since.Before(since)) {
			since = report.Since
			a.Since = stamp(since)
		}
		for i := range report.Top {
			a.Top = append(a.Top, e.keyShown(&report.Top[i]))
		}
	}
	slices.SortStableFunc(a.Top, func(x, y keyShown) int { return cmp.Compare(y.Denials, x.Denials) })
	a.Top = a.Top[:min(n, len(a.Top))]
	writeJSON(w, http.StatusOK, marshal(a))
}

// topAsked reads ?policy=…&n=….
func (s *Server) topAsked(raw string) (entries []*entry, n int, err error) {
	var q query
	if err := q.parse(raw, []string{"policy", "n"}); err != nil {
		return nil, 0, err
	}
	if q.key.n > 0 {
		return nil, 0, badInput("query: unknown name " + answer.Shown(q.key.at(0).name) + "; there are policy and n")
	}
	n = usualTop
	if text, ok := q.settings["n"]; ok {
		if n, err = strconv.Atoi(text); err != nil || n < 0 || n > mostTop {
			return nil, 0, badInput("query: n must be a whole number, 0 to " + strconv.Itoa(mostTop) + ", not " + answer.Shown(text))
		}
	}
	name, ok := q.settings["policy"]
	if !ok {
		return s.serving.Load().entries, n, nil
	}
	e, err := s.find(name, http.StatusNotFound)
	return []*entry{e}, n, err
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

func (e *entry) keyShown(t *topkeys.Entry) keyShown {
	k := keyShown{Policy: e.Name, Key: map[string]string{}, Clipped: t.Clipped, Denials: t.Denials, Error: t.Error}
	for i, name := range e.Dimensions() {
		k.Key[name] = t.Values[i]
	}
	return k
}
