package enforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/policy"
)

// StoredOverride is another number for one limit and some keys, which an operator has set in the
// store while programs run. Its members are those of a document of the store.
type StoredOverride struct {
	Policy string            `json:"policy"`
	Key    map[string]string `json:"key"`   // values of dimensions; one may be a network
	Limit  string            `json:"limit"` // its name
	Max    int64             `json:"max"`   // as weir.Limit.Max
	Until  time.Time         `json:"until,omitzero"`
	Reason string            `json:"reason"`
	Author string            `json:"author"`

	// Version is that of the document: about the instant of the last change, in microseconds since
	// 1970, by the clock of the store.
	Version int64 `json:"-"`
}

// Created returns the instant of the last change.
func (o *StoredOverride) Created() time.Time { return time.UnixMicro(o.Version).UTC() }

// hasEnded reports whether the override no longer applies at an instant.
func (o *StoredOverride) hasEnded(at time.Time) bool {
	return !o.Until.IsZero() && !at.Before(o.Until)
}

// name returns the name of the document. It is readable in the store, and overrides of the same
// policy, limit and key share it.
func (o *StoredOverride) name() string {
	values := url.Values{}
	for name, value := range o.Key {
		values.Set(name, value)
	}
	return o.Policy + "/" + o.Limit + "?" + values.Encode()
}

// overridesCollection is the collection of the documents.
const overridesCollection = "overrides"

// Overrides holds the overrides of the store for the policies of a Set. Every process on the store
// has all of them in memory, so a decision needs no further call. [Overrides.Watch] reads what
// others have changed.
//
// An override that does not fit the policies, as after a reload, is kept. It applies again once it
// fits.
type Overrides struct {
	set         *Set
	documents   engine.Documents
	unsupported error // the engine has no documents

	polling chan struct{} // holds a value while changes are read and made
	version int64         // of the documents in memory

	outdated atomic.Bool // the last Poll has failed

	// Set.reloading protects the following.
	byName map[string]*mirrored
	lost   int // overrides that the store has lost, and Watch has not reported
}

// mirrored is an override of the store in this process.
type mirrored struct {
	StoredOverride
	rule    *Rule  // that it is bound to; nil = none
	bound   *bound // on the rule
	problem string // the reason why it does not apply; "" = it does
	used    *atomic.Int64

	unreadable bool // a later version of this program has written it
}

// OpenOverrides returns the overrides of the engine's store for the policies of s, now and after
// reloads. [Overrides.Poll] reads them. An engine without documents has none, and a change is an
// error with the next step.
func (s *Set) OpenOverrides() *Overrides {
	d, err := documents.Of(s.Engine)
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.overrides = &Overrides{
		set:         s,
		documents:   d,
		unsupported: err,
		polling:     make(chan struct{}, 1),
		byName:      map[string]*mirrored{},
	}
	return s.overrides
}

// Poll reads the changes of the store and puts them in force. After an error those known before
// stay. One caller at a time reads; others wait until ctx is done.
func (o *Overrides) Poll(ctx context.Context) error {
	if o.unsupported != nil {
		return o.unsupported
	}
	select {
	case o.polling <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: the store has not answered those that asked before: %w",
			engine.ErrUnavailable, ctx.Err())
	}
	defer func() { <-o.polling }()
	changes, err := o.documents.Read(ctx, overridesCollection, o.version)
	o.outdated.Store(err != nil)
	if err != nil {
		return err
	}
	if changes.Version == o.version && !changes.Whole {
		return nil
	}
	o.apply(&changes)
	o.version = changes.Version
	return nil
}

// Outdated reports whether the store has not answered the last [Overrides.Poll], so that changes of
// other processes may be missing.
func (o *Overrides) Outdated() bool { return o.outdated.Load() }

// apply makes changes in memory.
func (o *Overrides) apply(changes *engine.Changes) {
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	if changes.Whole {
		dropped := o.dropMissing(changes.Documents)
		if changes.Version < o.version { // the store has lost its last changes
			o.lost += dropped
		}
	}
	for i := range changes.Documents {
		o.change(&changes.Documents[i])
	}
}

// change makes one change in memory. It ends the override before as the last step, so that no
// decision finds neither of the two.
func (o *Overrides) change(d *engine.Document) {
	before := o.byName[d.Name]
	if before != nil && before.Version == d.Version {
		return
	}
	delete(o.byName, d.Name)
	if d.Text != "" {
		next := newMirrored(d)
		if before != nil {
			next.used = before.used
		}
		o.byName[d.Name] = next
		next.bind(o.set.Version())
	}
	if before != nil {
		before.unbind()
	}
}

// newMirrored returns the override of a document, which is bound to no rule.
func newMirrored(d *engine.Document) *mirrored {
	r := &mirrored{used: new(atomic.Int64)}
	r.unreadable = json.Unmarshal([]byte(d.Text), &r.StoredOverride) != nil || len(r.Key) == 0
	if r.unreadable {
		r.StoredOverride = namedOverride(d.Name)
	}
	r.Version = d.Version
	return r
}

// namedOverride returns the override with the members that the name of its document has.
func namedOverride(name string) (o StoredOverride) {
	rest, query := "", ""
	o.Policy, rest, _ = strings.Cut(name, "/")
	o.Limit, query, _ = strings.Cut(rest, "?")
	o.Key = map[string]string{}
	values, _ := url.ParseQuery(query) // those that can be read
	for name := range values {
		o.Key[name] = values.Get(name)
	}
	return o
}

// dropMissing forgets the overrides that are not among documents, and returns their number.
func (o *Overrides) dropMissing(all []engine.Document) (dropped int) {
	there := make(map[string]bool, len(all))
	for _, d := range all {
		there[d.Name] = true
	}
	for name, r := range o.byName {
		if !there[name] {
			r.unbind()
			delete(o.byName, name)
			dropped++
		}
	}
	return dropped
}

// takeLost returns the number of overrides that the store has lost since the last call.
func (o *Overrides) takeLost() (n int) {
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	n = o.lost
	o.lost = 0
	return n
}

// rebind puts all overrides in force on the rules of a new version, which no decision uses yet. Those
// on the rules before stay, for decisions that have begun.
func (o *Overrides) rebind(next *Version) {
	for _, r := range o.byName {
		r.bind(next)
	}
}

// unbind ends the override on its rule.
func (r *mirrored) unbind() {
	if r.rule != nil {
		r.rule.stored.remove(r.bound)
	}
	r.rule = nil
	r.bound = nil
}

// bind puts the override in force on a rule of v, or sets the reason why it does not fit.
func (r *mirrored) bind(v *Version) {
	r.rule = nil
	r.bound = nil
	r.problem = ""
	if r.unreadable {
		r.problem = "it is not in the form of this version; use the version that has set it"
		return
	}
	rule, err := v.Rule(r.Policy)
	if err != nil {
		r.problem = "the policy file has no policy of that name any more"
		return
	}
	b, err := rule.fit(&r.StoredOverride)
	if err != nil {
		r.problem = strings.TrimPrefix(err.Error(), "weir: ")
		return
	}
	b.used = r.used
	rule.stored.add(b)
	r.rule, r.bound = rule, b
}

// fit returns the override on the rule. The error is the reason why it does not fit.
func (r *Rule) fit(o *StoredOverride) (*bound, error) {
	b := &bound{StoredOverride: o, limit: r.Compiled.LimitNamed(o.Limit)}
	if b.limit < 0 {
		return nil, engine.Input("limit", "policy %q has no limit %s; its limits are %q",
			r.Name, answer.Quoted(o.Limit), r.Compiled.LimitNames())
	}
	switch {
	case r.Mode == weir.CountDenied:
		// Such a history keeps only as many entries as its smallest number needs (R6), and would
		// grant too much under a larger one.
		return nil, engine.Input("request", "policy %q counts denied attempts, and its histories "+
			"fit one number only; change it in the policy file, or write denied: free", r.Name)
	case len(r.Compiled.Dimensions) == 0:
		return nil, engine.Input("key",
			"all callers share the limits of policy %q; change them in the policy file", r.Name)
	case len(o.Key) == 0:
		return nil, engine.Input("key", "it names no value; name one of %q", r.Compiled.Dimensions)
	case o.Max == 0 && answer.IsBucket(r.Limits[b.limit].Kind):
		return nil, engine.Input("units",
			"max is 0, and a bucket must refill; block the key instead")
	}
	var values []policy.Dimension
	for _, name := range slices.Sorted(maps.Keys(o.Key)) {
		value := o.Key[name]
		if err := r.checkValue(name, value); err != nil {
			return nil, err
		}
		values = append(values, policy.Dimension{Name: name, Value: value})
	}
	named, problem := r.valuesOf(values)
	if problem != "" {
		return nil, engine.Input("key", "the override %s", problem)
	}
	b.namedValues = named
	return b, r.fitNumber(b)
}

// checkValue returns the reason why an override cannot name a value.
func (r *Rule) checkValue(name, value string) error {
	switch {
	case !slices.Contains(r.Compiled.Dimensions, name):
		return engine.Input("key", "policy %q has no dimension %s; it counts by %q",
			r.Name, answer.Quoted(name), r.Compiled.Dimensions)
	case value == "":
		return engine.Input("key",
			"the value of %q is empty, and no key has an empty value; name a value", name)
	case len(value) > weir.MaxValueBytes:
		return engine.Input("key", "the value of %q is %d bytes long; at most %d are allowed",
			name, len(value), weir.MaxValueBytes)
	case r.Addresses[name] == 0 && clientaddr.IsName(name) && clientaddr.IsNetwork(value):
		return engine.Input("key", "the value of %q is a network, and without keys: only that "+
			"very text matches; add keys: {%s: address} to policy %q", name, name, r.Name)
	}
	return nil
}

// fitNumber returns an error if the number of an override cannot be that of its limit. Only a bucket
// has numbers that do not fit together, also those of a plan. So others need no limiter to know it,
// which would take seconds for 100,000.
func (r *Rule) fitNumber(b *bound) error {
	if b.Max < 0 || b.Max > weir.MaxUnits {
		return engine.Input("units", "max is %d; use 0 to %d", b.Max, weir.MaxUnits)
	}
	if !answer.IsBucket(r.Limits[b.limit].Kind) {
		return nil
	}
	for plan := range r.byPlan {
		if _, err := r.compileStored(planAndOverride{plan, -1}, []*bound{b}); err != nil {
			return err
		}
	}
	return nil
}

// canonical returns the key of a bound override with each address in its counted form.
func (r *Rule) canonical(b *bound) map[string]string {
	key := map[string]string{}
	for _, i := range b.dimensions {
		name := r.Compiled.Dimensions[i]
		key[name] = b.key.Value(i)
		if i == b.network {
			key[name] = b.prefix.String()
		}
	}
	return key
}

// Bounds of the texts of an override, in bytes.
const (
	maxReason = 500
	maxAuthor = 100
)

// OverrideChange is a change of an override by an operator.
type OverrideChange struct {
	StoredOverride       // an empty Limit is the only one of the policy
	Over           int64 // the version that it replaces, 0 for none, or engine.AnyVersion
	Force          bool  // Max may be below the number of the policy file
}

// Put stores an override, puts it in force here, and returns it with the one before, nil for none. The
// error is one of bad input, of an unknown policy (ErrNoPolicy), or of the store. It is an
// [OverrideConflict] if the present version is not Over.
func (o *Overrides) Put(
	ctx context.Context, c OverrideChange,
) (now StoredOverride, before *StoredOverride, err error) {
	rule, err := o.set.Version().Rule(c.Policy)
	if err != nil {
		return now, nil, err
	}
	if err := rule.checkOverride(&c); err != nil {
		return now, nil, err
	}
	text, err := json.Marshal(c.StoredOverride)
	if err != nil {
		return now, nil, err
	}
	d, before, err := o.write(ctx, &c, string(text))
	c.Version = d.Version
	return c.StoredOverride, before, err
}

// checkOverride completes a change, and returns the reason why it cannot be made.
func (r *Rule) checkOverride(c *OverrideChange) error {
	if c.Limit == "" {
		if names := r.Compiled.LimitNames(); len(names) > 1 {
			return engine.Input("limit",
				"missing; policy %q has several, so name one of %q", r.Name, names)
		}
		c.Limit = r.Compiled.Limits[0].Name
	}
	if c.hasEnded(time.Now()) {
		return engine.Input("instant", "until is %s, which is over; name a later instant, or leave "+
			"until out", c.Until.UTC().Format(time.RFC3339))
	}
	if err := CheckAudit(c.Reason, c.Author); err != nil {
		return err
	}
	b, err := r.fit(&c.StoredOverride)
	if err != nil {
		return err
	}
	if least, of := r.fileMax(b); c.Max < least && !c.Force {
		return engine.Input("units", `max is %d, below the %d of %s; `+
			`send "force": true to lower it`, c.Max, least, of)
	}
	c.Key = r.canonical(b)
	return nil
}

// CheckAudit returns an error unless a change has a reason and an author.
func CheckAudit(reason, author string) error {
	const required = "every change is logged with its reason and its author"
	switch {
	case strings.TrimSpace(reason) == "":
		return engine.Input("request", "the reason is missing; %s: write a sentence", required)
	case len(reason) > maxReason:
		return engine.Input("request", "the reason is %d bytes long; use at most %d",
			len(reason), maxReason)
	case strings.TrimSpace(author) == "":
		return engine.Input("request", "the author is missing; %s: write your name", required)
	case len(author) > maxAuthor:
		return engine.Input("request", "the author is %d bytes long; use at most %d",
			len(author), maxAuthor)
	}
	return nil
}

// fileMax returns the greatest number that the policy file gives a key of an override now, and the
// part of the file that gives it. A key may have any plan that its values do not rule out, and each
// override of the file that is for some of the keys.
func (r *Rule) fileMax(b *bound) (most int64, of string) {
	most = -1
	consider := func(override *policy.Override, part string) {
		for _, plan := range r.plansOf(b, override) {
			v := r.numbersOf(plan, override)
			n := v.Limits[b.limit].Max
			if n <= most {
				continue
			}
			most = n
			of = part
			if part == theFile && v.Plan != "" {
				of = "plan " + answer.Quoted(v.Plan) + " in " + theFile
			}
		}
	}
	now := time.Now()
	for _, i := range r.byRank {
		o := &r.Definition.Overrides[i]
		named, problem := r.valuesOf(o.For)
		hasEnded := !o.Until.IsZero() && !now.Before(o.Until)
		switch {
		case hasEnded || problem != "" || !named.meets(&b.namedValues):
		case named.covers(&b.namedValues):
			consider(o, theFile) // no later one applies to any of the keys
			return most, of
		default:
			consider(o, "the override for "+shownPairs(o.For)+" in "+theFile)
		}
	}
	consider(nil, theFile)
	return most, of
}

// theFile names the policy file in errors.
const theFile = "the policy file"

// shownPairs returns values with their names, such as ip=10.0.0.0/8.
func shownPairs(all []Pair) string {
	var shown []string
	for _, p := range all {
		shown = append(shown, p.Name+"="+answer.Shown(p.Value))
	}
	return strings.Join(shown, " ")
}

// plansOf returns the numbers of the plans that keys of an override may have under one of the file,
// nil for none.
func (r *Rule) plansOf(b *bound, override *policy.Override) []int {
	switch {
	case override != nil && override.Plan != "":
		return []int{r.plans[override.Plan]}
	case slices.Contains(b.dimensions, r.planAt):
		return []int{r.PlanOf(b.key.Value(r.planAt))}
	}
	all := make([]int, len(r.byPlan))
	for i := range all {
		all[i] = i
	}
	return all
}

// meets reports whether v and other name a key in common.
func (v *namedValues) meets(other *namedValues) bool {
	return !slices.ContainsFunc(v.dimensions, func(i int) bool {
		switch {
		case !slices.Contains(other.dimensions, i):
			return false
		case i == v.network || i == other.network:
			return !v.addresses(i).Overlaps(other.addresses(i))
		}
		return v.key.Value(i) != other.key.Value(i)
	})
}

// addresses returns the network, or those of the client, that v names in a dimension.
func (v *namedValues) addresses(dimension int) netip.Prefix {
	if dimension == v.network {
		return v.prefix
	}
	return clientaddr.Known(v.key.Value(dimension))
}

// covers reports whether v names all keys that other names.
func (v *namedValues) covers(other *namedValues) bool {
	return !slices.ContainsFunc(v.dimensions, func(i int) bool {
		switch {
		case !slices.Contains(other.dimensions, i):
			return true
		case i != v.network:
			return i == other.network || v.key.Value(i) != other.key.Value(i)
		case i == other.network:
			return v.prefix.Bits() > other.prefix.Bits() || !v.prefix.Contains(other.prefix.Addr())
		}
		return !v.prefix.Contains(other.addresses(i).Addr())
	})
}

// Delete deletes the override of a policy and a key, and returns it. It also finds one that does not
// fit the policies, but none that has ended: lists do not show it either. limit may be "" if there
// is one override of the key. The error wraps ErrNoOverride or ErrNoPolicy, or is as that of Put.
func (o *Overrides) Delete(ctx context.Context, c OverrideChange) (StoredOverride, error) {
	if err := CheckAudit(c.Reason, c.Author); err != nil {
		return StoredOverride{}, err
	}
	if err := o.Poll(ctx); err != nil && o.unsupported == nil {
		return StoredOverride{}, err
	}
	all, err := o.named(&c)
	if err != nil {
		return StoredOverride{}, err
	}
	if len(all) > 1 {
		var limits []string
		for _, x := range all {
			limits = append(limits, x.Limit)
		}
		return StoredOverride{}, engine.Input("limit",
			"missing; the key has several overrides, so name one of %q", limits)
	}
	c.Limit, c.Key = all[0].Limit, all[0].Key
	_, before, err := o.write(ctx, &c, "")
	if err == nil && before == nil {
		err = errNoOverride(c.Policy)
	}
	if err != nil {
		return StoredOverride{}, err
	}
	return *before, nil
}

// ErrNoOverride reports that the store has no such override.
var ErrNoOverride = errors.New("weir: no such override")

func errNoOverride(policy string) error {
	return fmt.Errorf("%w of policy %s; the overrides of the policy file are changed in the file",
		ErrNoOverride, answer.Quoted(policy))
}

// CanonicalKey returns the values of an override with each address or network in its counted form,
// as far as they fit the rule.
func (r *Rule) CanonicalKey(key map[string]string) map[string]string {
	all := maps.Clone(key)
	for name, value := range key {
		i := slices.Index(r.Compiled.Dimensions, name)
		if i < 0 || r.addressBits(i) == 0 {
			continue
		}
		named, problem := r.valuesOf([]policy.Dimension{{Name: name, Value: value}})
		if problem == "" {
			maps.Copy(all, r.canonical(&bound{namedValues: named}))
		}
	}
	return all
}

// named returns the overrides of a policy, a key and, if c names one, a limit.
func (o *Overrides) named(c *OverrideChange) ([]StoredOverride, error) {
	key := c.Key
	rule, err := o.set.Version().Rule(c.Policy)
	if err == nil {
		key = rule.CanonicalKey(key)
	}
	limits := []string{c.Limit}
	if c.Limit == "" && err == nil {
		limits = rule.Compiled.LimitNames()
	}
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	var all []StoredOverride
	for _, limit := range limits {
		named := StoredOverride{Policy: c.Policy, Key: key, Limit: limit}
		if r := o.byName[named.name()]; r != nil {
			all = append(all, r.StoredOverride)
		}
	}
	hasPolicy := false
	if len(all) == 0 { // its limit or its key may not fit the policy any more
		all, hasPolicy = o.search(c)
	}
	now := time.Now()
	all = slices.DeleteFunc(all, func(x StoredOverride) bool { return x.hasEnded(now) })
	switch {
	case len(all) > 0:
		return all, nil
	case err != nil && !hasPolicy:
		return nil, err
	}
	return nil, errNoOverride(c.Policy)
}

// search returns the overrides with the policy, the key and perhaps the limit of a change, as they
// are written. hasPolicy is whether there is any of the policy. The lock is held.
func (o *Overrides) search(c *OverrideChange) (all []StoredOverride, hasPolicy bool) {
	for _, r := range o.byName {
		if r.Policy != c.Policy {
			continue
		}
		hasPolicy = true
		if maps.Equal(r.Key, c.Key) && (c.Limit == "" || c.Limit == r.Limit) {
			all = append(all, r.StoredOverride)
		}
	}
	return all, hasPolicy
}

// OverrideConflict reports that another operator has changed the override.
type OverrideConflict struct {
	Present *StoredOverride // nil = there is none
}

// Error gives the next step.
func (e *OverrideConflict) Error() string {
	switch {
	case e.Present == nil:
		return "weir: there is no such override any more; read the overrides again"
	case e.Present.Author == "":
		return "weir: another version of this program has changed the override; delete it first"
	}
	return fmt.Sprintf("weir: %s has changed the override to %d since you have read it; "+
		"read it again, and send its version", answer.Shown(e.Present.Author), e.Present.Max)
}

// Unwrap returns engine.ErrConflict.
func (e *OverrideConflict) Unwrap() error { return engine.ErrConflict }

// maxWrites bounds the attempts of a change of any version, of which each meets another change.
const maxWrites = 10

// write writes the text of a change, "" to delete it, and puts it in force. It returns the one before.
func (o *Overrides) write(
	ctx context.Context, c *OverrideChange, text string,
) (d engine.Document, before *StoredOverride, err error) {
	for range maxWrites {
		if before, err = o.present(ctx, c); err != nil {
			return d, nil, err
		}
		over := c.Over
		isUnlisted := over == 0 && before != nil && before.hasEnded(time.Now())
		if over == engine.AnyVersion || isUnlisted { // before must be the one that is replaced
			over = 0
			if before != nil {
				over = before.Version
			}
		}
		d, err = o.documents.Write(ctx, overridesCollection,
			engine.Document{Name: c.name(), Text: text, Version: over})
		if !errors.Is(err, engine.ErrConflict) || c.Over != engine.AnyVersion {
			break
		}
	}
	switch {
	case errors.Is(err, engine.ErrConflict):
		return d, nil, conflict(&d)
	case errors.Is(err, engine.ErrFull) && o.len() >= engine.MaxDocuments:
		return d, nil, engine.Input("request", "the store has %d overrides, the most that it keeps; "+
			"delete some that are not needed", engine.MaxDocuments)
	case err != nil:
		return d, nil, err
	}
	o.Poll(ctx) // after an error Watch puts it in force
	return d, before, nil
}

// len returns the number of overrides of the store.
func (o *Overrides) len() int {
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	return len(o.byName)
}

// conflict returns the error with the present document.
func conflict(d *engine.Document) error {
	e := new(OverrideConflict)
	if d.Text != "" {
		e.Present = &newMirrored(d).StoredOverride
	}
	return e
}

// present returns the override that c would replace, nil for none.
func (o *Overrides) present(ctx context.Context, c *OverrideChange) (*StoredOverride, error) {
	if err := o.Poll(ctx); err != nil {
		return nil, err
	}
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	r := o.byName[c.name()]
	if r == nil {
		return nil, nil
	}
	before := r.StoredOverride
	return &before, nil
}

// ListedOverride is an override of the store with its state in this process.
type ListedOverride struct {
	StoredOverride
	LastUsed time.Time // the last decision here; zero = none since the start
	Problem  string    // the reason why it does not apply; "" = it does
	Sentence string    // its limit in the words of a policy file; "" if it does not apply

	rule  *Rule // nil = it does not apply
	bound *bound
}

// List returns the overrides of a policy, "" for all, in the order of policies, limits and keys.
// Those that have ended are left out.
func (o *Overrides) List(policy string) []ListedOverride {
	all, _ := o.Page(policy, "", math.MaxInt)
	return all
}

// Page returns the first n overrides of List behind a place, "" for the beginning, and the place
// behind which the next page begins, "" if there is none.
func (o *Overrides) Page(policy, after string, n int) (page []ListedOverride, next string) {
	names := o.names(policy, after)
	slices.Sort(names) // without the lock, as the sentences are made, because both take a while
	if n < len(names) {
		names = names[:n]
		next = names[n-1]
	}
	page = o.listed(names)
	for i := range page {
		page[i].complete()
	}
	return page, next
}

// names returns the places of the overrides of Page, in no order.
func (o *Overrides) names(policy, after string) (all []string) {
	now := time.Now()
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	for name, r := range o.byName {
		if name > after && (policy == "" || r.Policy == policy) && !r.hasEnded(now) {
			all = append(all, name)
		}
	}
	return all
}

// listed returns the overrides of places that are there, without their sentences.
func (o *Overrides) listed(names []string) []ListedOverride {
	all := []ListedOverride{}
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	for _, name := range names {
		if r := o.byName[name]; r != nil {
			all = append(all, r.listed())
		}
	}
	return all
}

// Get returns the override of the policy, the limit and the key of another one, which Put has
// returned, as List does. It reports false if there is none any more.
func (o *Overrides) Get(other *StoredOverride) (ListedOverride, bool) {
	name := other.name()
	o.set.reloading.Lock()
	r := o.byName[name]
	if r == nil {
		o.set.reloading.Unlock()
		return ListedOverride{}, false
	}
	x := r.listed()
	o.set.reloading.Unlock()
	x.complete()
	return x, true
}

// listed returns an override for a list. The lock is held.
func (r *mirrored) listed() ListedOverride {
	x := ListedOverride{
		StoredOverride: r.StoredOverride,
		Problem:        r.problem,
		rule:           r.rule,
		bound:          r.bound,
	}
	if used := r.used.Load(); used > 0 {
		x.LastUsed = time.UnixMicro(used).UTC()
	}
	return x
}

// complete sets the sentence.
func (x *ListedOverride) complete() {
	if x.rule != nil {
		x.Sentence = x.rule.sentence(x.bound)
	}
}

// sentence returns the limit of an override in the words of a policy file.
func (r *Rule) sentence(b *bound) string {
	v := r.numbersOf(0, nil)
	setMax(&v.Limits[b.limit], b.Max)
	return v.Definition.Sentence(b.limit)
}

// Show returns an override as a list shows it, without its last use. The store need not have it.
func (o *Overrides) Show(x *StoredOverride) ListedOverride {
	shown := ListedOverride{StoredOverride: *x}
	rule, err := o.set.Version().Rule(x.Policy)
	if err != nil {
		return shown
	}
	if b, err := rule.fit(x); err == nil {
		shown.Sentence = rule.sentence(b)
	}
	return shown
}

// InForce returns the numbers of overrides that apply now, by the names of policies that have any.
func (o *Overrides) InForce() map[string]int64 {
	now, counts := time.Now(), map[string]int64{}
	o.set.reloading.Lock()
	defer o.set.reloading.Unlock()
	for _, r := range o.byName {
		counts[r.Policy] += 0
		if r.rule != nil && !r.hasEnded(now) {
			counts[r.Policy]++
		}
	}
	return counts
}

const (
	// pollEvery is the time between two readings of the store's version.
	pollEvery = 250 * time.Millisecond

	// pollTimeout bounds one of them. It doubles with each that has not ended in time, up to
	// maxPollTimeout: to read 100,000 overrides from a store far away takes seconds.
	pollTimeout    = 2 * time.Second
	maxPollTimeout = 32 * time.Second

	// sweepEvery is the time between two deletions of overrides that have ended.
	sweepEvery = time.Minute

	// keptEnded is the time for which an override that has ended is kept. A process whose clock is
	// ahead would delete it from the store while it applies elsewhere.
	keptEnded = time.Hour
)

// Watch polls until ctx is done, and deletes overrides that ended long ago. It calls failed with
// the first error, with a different one at most once a minute, and with nil after the last one. It
// calls lost with the number of overrides that have ended because the store has lost them.
func (o *Overrides) Watch(ctx context.Context, failed func(error), lost func(n int)) {
	if o.unsupported != nil {
		return
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var reports reports
	timeout := pollTimeout
	for swept := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		timed, cancel := context.WithTimeout(ctx, timeout)
		err := o.Poll(timed)
		if timed.Err() == nil {
			timeout = pollTimeout
		} else {
			timeout = min(2*timeout, maxPollTimeout)
		}
		now := time.Now()
		if err == nil && now.Sub(swept) > sweepEvery {
			swept = now
			o.sweep(timed)
		}
		cancel()
		if ctx.Err() == nil && reports.isNews(err, now) {
			failed(err)
		}
		if n := o.takeLost(); n > 0 {
			lost(n)
		}
	}
}

// reportEvery is the least time between the reports of two errors of one outage. Each poll may have
// a text of its own, such as one with the port of a broken connection.
const reportEvery = time.Minute

// reports remembers the last report of Watch.
type reports struct {
	text string // of the error; "" = none
	at   time.Time
}

// isNews reports whether the result of a poll is to be reported, and remembers it then.
func (r *reports) isNews(err error, now time.Time) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	isTurn := (text == "") != (r.text == "")
	if !isTurn && (text == r.text || now.Sub(r.at) < reportEvery) {
		return false
	}
	r.text = text
	r.at = now
	return true
}

// sweep deletes overrides of the store that ended long ago. Other processes do so, too.
func (o *Overrides) sweep(ctx context.Context) {
	longAgo := time.Now().Add(-keptEnded)
	o.set.reloading.Lock()
	var ended []engine.Document
	for name, r := range o.byName {
		if r.hasEnded(longAgo) {
			ended = append(ended, engine.Document{Name: name, Version: r.Version})
		}
	}
	o.set.reloading.Unlock()
	for _, d := range ended {
		// After an error the next sweep tries again: nothing depends on it.
		o.documents.Write(ctx, overridesCollection, d)
	}
}
