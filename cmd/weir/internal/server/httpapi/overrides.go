package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// OverrideList is the answer to GET /v1/overrides. Overrides of the store come first, because
// decisions try them first.
type OverrideList struct {
	Overrides []Override `json:"overrides"`
	Next      string     `json:"next,omitempty" jsonschema:"with n: the value of after for the next page; missing = this is the last one"`
	Problem   string     `json:"problem,omitempty" jsonschema:"the reason why some may be missing"`
}

// newOverrideList returns a list without overrides.
func (a *API) newOverrideList() OverrideList {
	list := OverrideList{Overrides: []Override{}}
	if a.Overrides.Outdated() {
		list.Problem = "the store is unavailable, so these overrides are the last known ones; " +
			"see store_down of /readyz"
	}
	return list
}

// Override is an override of the store or of the policy file.
type Override struct {
	Policy     string            `json:"policy"`
	Key        map[string]string `json:"key" jsonschema:"values of dimensions; one may be a network"`
	Limit      string            `json:"limit,omitempty" jsonschema:"missing for an override of the file that only selects a plan"`
	Max        int64             `json:"max" jsonschema:"units per window in place of those of the limit"`
	Sentence   string            `json:"sentence,omitempty" jsonschema:"the limit in the words of a policy file, without a plan"`
	Plan       string            `json:"plan,omitempty" jsonschema:"the plan that an override of the file selects"`
	Until      string            `json:"until,omitempty" jsonschema:"the instant from which it no longer applies, RFC 3339; missing = it does not end"`
	Reason     string            `json:"reason"`
	Author     string            `json:"author,omitempty" jsonschema:"missing for one of the file"`
	Created    string            `json:"created,omitempty" jsonschema:"the instant of its last change, RFC 3339; missing for one of the file"`
	LastUsed   string            `json:"last_used,omitempty" jsonschema:"the last decision of this instance with it, RFC 3339"`
	Source     string            `json:"source" jsonschema:"store or file"`
	Version    string            `json:"version,omitempty" jsonschema:"of one of the store: in quotes it is the ETag, and If-Match takes it"`
	NotApplied string            `json:"not_applied,omitempty" jsonschema:"the reason why it does not apply, such as a limit that the file no longer has"`
}

// overridesPath begins the path of the overrides of a policy.
const overridesPath = "/v1/overrides/"

// storeTimeout bounds the calls of the store for a change.
const storeTimeout = 5 * time.Second

// serveOverrides lists all overrides, or a page of them by ?n=…&after=….
func (a *API) serveOverrides(w http.ResponseWriter, r *http.Request) {
	p, err := parsePage(r.URL.RawQuery)
	if err != nil {
		a.reject(w, err)
		return
	}
	writeJSON(w, http.StatusOK, marshal(a.pageOfOverrides(p)))
}

// maxPage is the largest n of a page.
const maxPage = 10_000

// overridesPage is a part of the list of overrides: those of the store, and then those of the file.
type overridesPage struct {
	n    int    // at most so many
	of   string // behind the override of the store with this place; "" = from the first one
	file int    // -1, or the number of overrides of the file before it
}

// The first letter of after, before the place of an override of the store or a number of those of the
// file.
const (
	afterStore = "s"
	afterFile  = "f"
)

// parsePage parses the query of GET /v1/overrides.
func parsePage(raw string) (p overridesPage, err error) {
	q := query{reserved: []string{"n", "after"}}
	if err := q.parse(raw); err != nil {
		return p, err
	}
	if len(q.key) > 0 {
		return p, calls.BadInput("query: unknown name %s; there are n and after, and "+
			overridesPath+policyName+" takes a key", answer.Shown(q.key[0].Name))
	}
	p = overridesPage{n: math.MaxInt, file: -1}
	if text, ok := q.settings["n"]; ok {
		if p.n, err = strconv.Atoi(text); err != nil || p.n < 1 || p.n > maxPage {
			return p, calls.BadInput("query: n must be a whole number, 1 to %d, not %s",
				maxPage, answer.Shown(text))
		}
	}
	after, ok := q.settings["after"]
	if !ok {
		return p, nil
	}
	of, isStore := strings.CutPrefix(after, afterStore)
	number, isFile := strings.CutPrefix(after, afterFile)
	switch {
	case isStore:
		p.of = of
		return p, nil
	case isFile:
		p.file, err = strconv.Atoi(number)
	}
	if !isFile || err != nil || p.file < 0 {
		return p, calls.BadInput("query: after must be the next of the page before, not %s",
			answer.Shown(after))
	}
	return p, nil
}

// pageOfOverrides returns a page of the overrides of all policies.
func (a *API) pageOfOverrides(p overridesPage) OverrideList {
	list := a.newOverrideList()
	if p.file < 0 {
		stored, next := a.Overrides.Page("", p.of, p.n)
		for i := range stored {
			list.Overrides = append(list.Overrides, showOverride(&stored[i]))
		}
		if next != "" {
			list.Next = afterStore + next
			return list
		}
		p.file = 0
	}
	var ofFile []Override
	for _, r := range a.Policies().Rules {
		ofFile = append(ofFile, overridesOfFile(r)...)
	}
	ofFile = ofFile[min(p.file, len(ofFile)):]
	if room := p.n - len(list.Overrides); room < len(ofFile) {
		ofFile = ofFile[:room]
		list.Next = afterFile + strconv.Itoa(p.file+room)
	}
	list.Overrides = append(list.Overrides, ofFile...)
	return list
}

// serveOverridesOf lists the overrides of a policy.
func (a *API) serveOverridesOf(w http.ResponseWriter, r *http.Request) {
	if err := a.listOverrides(w, r); err != nil {
		a.reject(w, err)
	}
}

// listOverrides answers with the overrides of a policy. If the query has a key, it lists only those
// for exactly that key. The answer then has an ETag, if the store has an override for the key.
func (a *API) listOverrides(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, overridesPath)
	var q query
	if err := q.parse(r.URL.RawQuery); err != nil {
		return err
	}
	list := a.newOverrideList()
	var stored []enforce.ListedOverride
	if name != "" { // "" would list those of all policies
		stored = a.Overrides.List(name)
	}
	rule, err := a.Policies().Rule(name)
	if err != nil && len(stored) == 0 {
		return calls.NoPolicy(err, calls.ErrMissing, listPolicies)
	}
	for i := range stored {
		list.Overrides = append(list.Overrides, showOverride(&stored[i]))
	}
	if err == nil {
		list.Overrides = append(list.Overrides, overridesOfFile(rule)...)
	}
	if len(q.key) > 0 {
		key := mapOf(q.key)
		if err == nil {
			key = rule.CanonicalKey(key)
		}
		list.Overrides = slices.DeleteFunc(list.Overrides,
			func(o Override) bool { return !maps.Equal(o.Key, key) })
		if err == nil && len(list.Overrides) == 0 {
			if err := checkNames(rule, q.key); err != nil {
				return err
			}
		}
	}
	if own := ofStore(list.Overrides); len(own) == 1 {
		w.Header()["Etag"] = []string{strconv.Quote(own[0].Version)}
	}
	writeJSON(w, http.StatusOK, marshal(list))
	return nil
}

// checkNames returns an error for a name that is no dimension, which no override can have.
func checkNames(rule *enforce.Rule, key enforce.Pairs) error {
	for _, p := range key {
		if !slices.Contains(rule.Dimensions(), p.Name) {
			return engine.Input("key", "policy %q has no dimension %s; it counts by %q",
				rule.Name, answer.Quoted(p.Name), rule.Dimensions())
		}
	}
	return nil
}

// ofStore returns the overrides of the store, which are the first ones of the list.
func ofStore(all []Override) []Override {
	i := slices.IndexFunc(all, func(o Override) bool { return o.Version == "" })
	if i < 0 {
		return all
	}
	return all[:i]
}

// mapOf returns a key as a map from names to values.
func mapOf(pairs enforce.Pairs) map[string]string {
	key := make(map[string]string, len(pairs))
	for _, p := range pairs {
		key[p.Name] = p.Value
	}
	return key
}

// showOverride returns an override of the store as the API shows it.
func showOverride(o *enforce.ListedOverride) Override {
	shown := Override{
		Policy:     o.Policy,
		Key:        o.Key,
		Limit:      o.Limit,
		Max:        o.Max,
		Sentence:   o.Sentence,
		Reason:     o.Reason,
		Author:     o.Author,
		Created:    Stamp(o.Created()),
		Source:     "store",
		Version:    strconv.FormatInt(o.Version, 10),
		NotApplied: o.Problem,
	}
	if !o.Until.IsZero() {
		shown.Until = Stamp(o.Until)
	}
	if !o.LastUsed.IsZero() {
		shown.LastUsed = Stamp(o.LastUsed)
	}
	return shown
}

// overridesOfFile returns the overrides of the policy file that have not ended, one for each limit
// that they change.
func overridesOfFile(r *enforce.Rule) (all []Override) {
	now := time.Now()
	for i := range r.Definition.Overrides {
		o := &r.Definition.Overrides[i]
		if !o.Until.IsZero() && !now.Before(o.Until) {
			continue
		}
		shown := Override{
			Policy: r.Name,
			Key:    mapOf(o.For),
			Plan:   o.Plan,
			Reason: o.Why,
			Source: "file",
		}
		if !o.Until.IsZero() {
			shown.Until = Stamp(o.Until)
		}
		if len(o.Changes) == 0 {
			all = append(all, shown)
		}
		changed := r.With(o.Changes)
		for _, c := range o.Changes {
			shown.Limit = r.Limits[c.Limit].Name
			shown.Max = c.Max
			shown.Sentence = changed.Sentence(c.Limit)
			all = append(all, shown)
		}
	}
	return all
}

// override has the members of a body about an override, except its key and its limit.
type override struct {
	max            int64
	until          time.Time
	reason, author string
	force          bool
}

// servePutOverride sets an override and answers with it and its ETag.
func (a *API) servePutOverride(w http.ResponseWriter, r *http.Request) {
	a.serveChange(w, r, putOverrideMembers, a.putOverride)
}

// serveDeleteOverride deletes an override and answers with it.
func (a *API) serveDeleteOverride(w http.ResponseWriter, r *http.Request) {
	a.serveChange(w, r, deleteOverrideMembers, a.deleteOverride)
}

// serveChange reads a change of an override, makes it and writes the answer.
func (a *API) serveChange(
	w http.ResponseWriter, r *http.Request, takes member,
	make func(context.Context, http.ResponseWriter, enforce.OverrideChange) error,
) {
	s := scratches.Get().(*scratch)
	defer s.release()
	c, err := a.readChange(w, r, s, takes)
	if err == nil {
		ctx, cancel := context.WithTimeout(background, storeTimeout)
		defer cancel()
		if err = make(ctx, w, c); errors.Is(err, engine.ErrOutcomeUnknown) {
			a.auditUnconfirmed(takes, &c)
		}
	}
	if err != nil {
		a.reject(w, overrideError(err))
	}
}

// putOverride sets an override.
func (a *API) putOverride(
	ctx context.Context, w http.ResponseWriter, c enforce.OverrideChange,
) error {
	now, before, err := a.Overrides.Put(ctx, c)
	if err != nil {
		return err
	}
	a.audit("an override was set", &now, before, &now)
	shown, ok := a.Overrides.Get(&now)
	if !ok || shown.Version != now.Version { // another operator has changed it meanwhile
		shown = a.Overrides.Show(&now)
	}
	w.Header()["Etag"] = []string{strconv.Quote(strconv.FormatInt(now.Version, 10))}
	writeJSON(w, http.StatusOK, marshal(showOverride(&shown)))
	return nil
}

// deletedOverride is the answer to DELETE /v1/overrides/{policy}.
type deletedOverride struct {
	Deleted Override `json:"deleted" jsonschema:"the override as it was"`
}

// deleteOverride deletes an override.
func (a *API) deleteOverride(
	ctx context.Context, w http.ResponseWriter, c enforce.OverrideChange,
) error {
	before, err := a.Overrides.Delete(ctx, c)
	if err != nil {
		return err
	}
	by := before
	by.Author, by.Reason = c.Author, c.Reason
	a.audit("an override was deleted", &by, &before, nil)
	shown := a.Overrides.Show(&before)
	writeJSON(w, http.StatusOK, marshal(deletedOverride{showOverride(&shown)}))
	return nil
}

// readChange reads a change of an override.
func (a *API) readChange(
	w http.ResponseWriter, r *http.Request, s *scratch, takes member,
) (c enforce.OverrideChange, err error) {
	s.body = s.body[:0]
	s.override = override{}
	if err := a.readBody(r, s, shortBody); err != nil {
		stopReading(w, r)
		return c, err
	}
	if err := s.read(takes); err != nil {
		return c, err
	}
	switch missing := takes &^ s.seen; {
	case missing&keyMember != 0:
		return c, calls.BadInput(`"key" is missing; send %s`, bodies[takes].example)
	case missing&maxMember != 0:
		return c, calls.BadInput(`"max" is missing: ` +
			`the units per window in place of those of the limit`)
	}
	c = enforce.OverrideChange{
		StoredOverride: enforce.StoredOverride{
			Policy: strings.TrimPrefix(r.URL.Path, overridesPath),
			Key:    mapOf(s.key),
			Limit:  s.Limit,
			Max:    s.override.max,
			Until:  s.override.until,
			Reason: strings.TrimSpace(s.override.reason),
			Author: strings.TrimSpace(s.override.author),
		},
		Force: s.override.force,
	}
	c.Over, err = versionOf(r.Header)
	return c, err
}

// versionOf returns the version that a change replaces, by the conditions of its header.
func versionOf(h http.Header) (int64, error) {
	match, none := h.Values("If-Match"), h.Values("If-None-Match")
	switch {
	case len(match) == 0 && len(none) == 0:
		return engine.AnyVersion, nil
	case len(match) == 0 && len(none) == 1 && none[0] == "*":
		return 0, nil
	case len(none) > 0:
		return 0, calls.BadInput("the header field If-None-Match takes only *, " +
			"for an override that does not exist yet, and not beside If-Match")
	}
	version, ok := etagVersion(match[0])
	if !ok || len(match) > 1 {
		return 0, calls.BadInput("the header field If-Match takes the ETag of one override, " +
			`such as "1790000000000000" with its quotes; ` +
			"GET " + overridesPath + policyName + "?dimension=value returns it")
	}
	return version, nil
}

// etagVersion returns the version in an ETag.
func etagVersion(etag string) (version int64, ok bool) {
	text, ok := unquoted(etag)
	if !ok || !strings.HasPrefix(etag, `"`) {
		return 0, false
	}
	version, err := strconv.ParseInt(text, 10, 64)
	return version, err == nil && version > 0
}

// readOverrideMember reads a member about an override.
func (s *scratch) readOverrideMember(m member) (err error) {
	o := &s.override
	switch m {
	case maxMember:
		o.max, err = s.readWhole(`"max"`, "", weir.MaxUnits)
	case untilMember:
		o.until, err = s.readUntil()
	case reasonMember:
		o.reason, err = s.readText(`"reason" must be a string, in "…"`)
	case authorMember:
		o.author, err = s.readText(`"author" must be a string, in "…"`)
	case forceMember:
		o.force, err = s.json.Bool(`"force" must be true or false`)
	}
	return err
}

// readUntil reads the end of an override: an instant, or a day, which lasts to its end in UTC.
func (s *scratch) readUntil() (time.Time, error) {
	text, err := s.readText(`"until" must be a string, in "…"`)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.DateOnly, text)
	if err == nil {
		t = t.AddDate(0, 0, 1)
	} else if t, err = time.Parse(time.RFC3339, text); err != nil {
		return t, s.json.Fault(`"until" must be an instant such as "2026-12-31T18:00:00Z", ` +
			`or a day such as "2026-12-31", which lasts to its end in UTC; ` +
			"leave it away for no end")
	}
	switch t = t.UTC(); {
	case t.Year() < minYear || t.Year() > maxYear: // the zero time stands for no end
		return t, s.json.Fault(fmt.Sprintf(`"until" must be in the years %d to %d; `+
			"leave it away for no end", minYear, maxYear))
	case t.Nanosecond() != 0:
		return t, s.json.Fault(`"until" must be in whole seconds, as in a policy file`)
	}
	return t, nil
}

// minYear and maxYear are the bounds of years in a policy file.
const (
	minYear = 1971
	maxYear = 2199
)

// overrideError adds the next step to an error of a change.
func overrideError(err error) error {
	switch {
	case errors.Is(err, enforce.ErrNoPolicy):
		return calls.NoPolicy(err, calls.ErrMissing, listPolicies)
	case errors.Is(err, engine.ErrOutcomeUnknown):
		return fmt.Errorf("%w: %w", calls.ErrUnconfirmed, err)
	}
	return err
}

// audit logs a change with its author, its reason, and the key in the form that --top-keys permits.
// The version identifies the override in answers of the API. before is nil for a new override,
// after for a deleted one.
func (a *API) audit(message string, by, before, after *enforce.StoredOverride) {
	line := a.auditBy(by)
	line = append(line, auditMembers("old", before)...)
	line = append(line, auditMembers("new", after)...)
	a.Log.Info(message, line...)
}

// auditUnconfirmed logs a change that the store has not confirmed. It may be made all the same, and
// then no other line has it.
func (a *API) auditUnconfirmed(takes member, c *enforce.OverrideChange) {
	message := "an override may have been set: the store has not confirmed it"
	after := &c.StoredOverride
	if takes == deleteOverrideMembers {
		message = "an override may have been deleted: the store has not confirmed it"
		after = nil
	}
	line := append(a.auditBy(&c.StoredOverride), auditMembers("new", after)...)
	a.Log.Warn(message, line...)
}

// auditBy returns the override, the author and the reason of a change for a line of the log.
func (a *API) auditBy(by *enforce.StoredOverride) []any {
	return []any{
		"policy", by.Policy,
		"limit", by.Limit,
		"key", a.auditKey(by.Key),
		"author", answer.Shown(by.Author),
		"reason", by.Reason,
	}
}

// auditKey returns a key for the log.
func (a *API) auditKey(key map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(key)) {
		switch a.TopKeys {
		case topkeys.Shown:
			name += "=" + answer.Shown(key[name])
		case topkeys.Hashed:
			name += "=" + topkeys.Hash(key[name])
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

// auditMembers returns the numbers of an override for a line of the log.
func auditMembers(prefix string, o *enforce.StoredOverride) []any {
	if o == nil {
		return []any{prefix, "none"}
	}
	until := "forever"
	if !o.Until.IsZero() {
		until = Stamp(o.Until)
	}
	return []any{slog.Group(prefix, "max", o.Max, "until", until, "version", o.Version)}
}
