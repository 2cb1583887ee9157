// Package inline holds the policies that calls of weir serve carry themselves, as lines of the
// policy file's grammar, in place of the name of a policy of the file.
//
// An inline policy is stateless: its name and its limits stand in every call, so each server on a
// store decides it, also after a restart. Its histories belong to its name behind [Prefix], which
// no policy of the file has (R12).
//
// The trade-off: compiled policies and their counters are kept, so their number has a bound. A
// program that makes names or limits of values of keys meets it, and gets an error that explains
// this. A policy without a call for an hour makes room; only its counters are lost.
package inline

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// Prefix begins the names under which inline policies count and are shown.
const Prefix = "inline."

const (
	// Max is the largest number of inline policies, which are pairs of a name and limits.
	Max = 1000

	maxName = 64 - len(Prefix) // bytes of a caller's name: weir.ValidName allows 64
	idle    = time.Hour        // a policy without a call for as long makes room for another

	// coarse is the precision of entry.called. A finer one would be written by every call, and
	// calls on several processors would compete for its cache line.
	coarse = time.Second
)

// Policies are the inline policies of a server. They are safe for concurrent use. A nil Policies
// allows none.
type Policies struct {
	engine  engine.Engine
	observe func(next, before *enforce.Rule)

	mu    sync.RWMutex // protects the following
	byKey map[string]*entry
	last  int64 // number of the newest entry
}

// entry is a policy by its name and its limits as callers write them.
type entry struct {
	rule   *enforce.Rule
	number int64        // counts up with each entry
	called atomic.Int64 // the last call, microseconds since 1970
}

// New returns policies on an engine. observe sets the handle of a new policy; before is the newest
// one of the same name, nil if there is none.
func New(e engine.Engine, observe func(next, before *enforce.Rule)) *Policies {
	return &Policies{engine: e, observe: observe, byKey: map[string]*entry{}}
}

// Finder finds the policies of calls.
type Finder struct {
	Version func() *enforce.Version // the policies of the file in force
	Inline  *Policies               // nil = inline policies are off
}

// Rule returns the inline policy of a name and its limits, or the policy of the file if there are no
// limits. The error of the latter is that of the Version.
func (f Finder) Rule(name string, limits []string) (*enforce.Rule, error) {
	switch {
	case limits != nil:
		return f.Inline.Rule(name, limits)
	case Named(name):
		return nil, fmt.Errorf("%w %s: a call with an inline policy holds its name without %s, and its limits",
			enforce.ErrNoPolicy, answer.Quoted(name), Prefix)
	}
	return f.Version().Rule(name)
}

// errOff rejects limits in a call of a server that allows none.
var errOff = calls.BadInput("inline policies are off, so a call carries no limits; " +
	"start weir serve with --inline-policies, or name a policy of its file and leave the limits away")

// Rule returns the policy of a name and its limits, which are lines of the policy file's grammar.
// A name of "" stands for one that is made of the limits. The error is bad input. The strings are
// not kept.
func (p *Policies) Rule(name string, limits []string) (*enforce.Rule, error) {
	return p.rule(name, limits, time.Now())
}

func (p *Policies) rule(name string, limits []string, now time.Time) (*enforce.Rule, error) {
	if p == nil {
		return nil, errOff
	}
	var few [256]byte
	key := keyenc.Append(few[:0], name)
	for _, line := range limits {
		key = keyenc.Append(key, line)
	}
	p.mu.RLock()
	e := p.byKey[string(key)]
	p.mu.RUnlock()
	if e == nil {
		return p.add(string(key), name, limits, now)
	}
	if us := now.UnixMicro(); us-e.called.Load() >= coarse.Microseconds() {
		e.called.Store(us)
	}
	return e.rule, nil
}

// add compiles a policy and keeps it under its key.
func (p *Policies) add(key, name string, limits []string, now time.Time) (*enforce.Rule, error) {
	d, err := define(name, limits)
	if err != nil {
		return nil, err
	}
	r, err := enforce.NewRule(d, p.engine)
	if err != nil {
		return nil, policyError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key]; e != nil { // another call has added it meanwhile
		return e.rule, nil
	}
	if len(p.byKey) == Max {
		p.dropIdle(now)
	}
	if len(p.byKey) == Max {
		return nil, calls.BadInput("no room for another inline policy: there are %d, the most, "+
			"each called within the last hour; write values such as users into the key, "+
			"not into the name or the limits, or move policies to the file", Max)
	}
	var before *enforce.Rule
	if e := p.newest()[r.Name]; e != nil {
		before = e.rule
	}
	p.observe(r, before)
	p.last++
	e := &entry{rule: r, number: p.last}
	e.called.Store(now.UnixMicro())
	p.byKey[key] = e
	return r, nil
}

// dropIdle drops the policies without a call for a while. The caller holds mu.
func (p *Policies) dropIdle(now time.Time) {
	since := now.Add(-idle).UnixMicro()
	for key, e := range p.byKey {
		if e.called.Load() <= since {
			delete(p.byKey, key)
		}
	}
}

// newest returns the newest policy of each name. The caller holds mu.
func (p *Policies) newest() map[string]*entry {
	all := map[string]*entry{}
	for _, e := range p.byKey {
		if of := all[e.rule.Name]; of == nil || of.number < e.number {
			all[e.rule.Name] = e
		}
	}
	return all
}

// Rules returns the newest policy of each name, in the order of the names. The policies of a name
// share its counters.
func (p *Policies) Rules() []*enforce.Rule {
	if p == nil {
		return nil
	}
	p.mu.RLock()
	all := p.newest()
	p.mu.RUnlock()
	rules := make([]*enforce.Rule, 0, len(all))
	for _, e := range all {
		rules = append(rules, e.rule)
	}
	slices.SortFunc(rules, func(a, b *enforce.Rule) int { return cmp.Compare(a.Name, b.Name) })
	return rules
}

// Len returns the number of policies, at most [Max].
func (p *Policies) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.byKey)
}

// Named reports whether a name is that of an inline policy, as answers and metrics show it.
func Named(name string) bool { return strings.HasPrefix(name, Prefix) }

// CallerName returns the name that a caller gives to the policy of a rule: the rule's without the
// prefix.
func CallerName(rule string) string { return strings.TrimPrefix(rule, Prefix) }

// define returns the policy of a name and its limits. It shares no memory with them.
func define(name string, limits []string) (*policy.Definition, error) {
	if len(limits) == 0 {
		return nil, calls.BadInput(`an inline policy needs 1 to %d limits, such as "10 per minute per user"`,
			engine.MaxLimits)
	}
	if len(limits) > engine.MaxLimits {
		return nil, calls.BadInput("%d limits; at most %d are decided together", len(limits),
			engine.MaxLimits)
	}
	d := &policy.Definition{WhenStoreIsDown: engine.OutageDeny}
	for i, line := range limits {
		limit, unit, err := policy.ParseLimit(strings.Clone(line))
		if err != nil {
			return nil, lineError(i, line, err)
		}
		d.Limits = append(d.Limits, limit)
		d.Units = append(d.Units, unit)
	}
	d.Name = Prefix + name
	switch {
	case name == "":
		d.Name = Prefix + defaultName(limits)
	case !weir.ValidName(d.Name):
		return nil, calls.BadInput("%s cannot name an inline policy: a name has 1 to %d of a-z 0-9 . _ -, "+
			"and begins with a letter or a digit; without a name it gets one from its limits",
			answer.Shown(name), maxName)
	case Named(name):
		return nil, calls.BadInput("%s has %s already, "+
			"which answers put before the name of an inline policy; send %s",
			answer.Shown(name), Prefix, answer.Shown(CallerName(name)))
	}
	compiled, err := d.Compile()
	if err != nil {
		return nil, policyError(err)
	}
	for i := range d.Limits {
		d.Limits[i].Name = compiled.Limits[i].Name
	}
	return d, nil
}

// lineError returns the error of a limit that does not parse, with the text of the policy file's.
func lineError(index int, line string, err error) error {
	wrong, ok := errors.AsType[*policy.Error](err)
	if !ok {
		return calls.BadInput("limits[%d]: %v", index, err)
	}
	problem, next := wrong.Problem, wrong.Next
	// A word of policies, not of limits: the error of ParseLimit names its place in Go.
	if strings.HasPrefix(next, "leave it out, ") {
		problem = strings.Replace(problem, "a weir.Limit", "a limit line", 1)
		next = "leave it out, or put the policy into the file of weir serve"
	}
	return calls.BadInput("limits[%d]: column %d of %s: %s; %s", index, wrong.Column,
		answer.Quoted(line), problem, next)
}

// policyError returns the error of limits that do not fit together. Its next step is not that of a
// program in Go, which can give each limit a name.
func policyError(err error) error {
	wrong, ok := errors.AsType[*weir.PolicyError](err)
	if !ok {
		return err
	}
	problem, place := wrong.Problem, "limits"
	if wrong.Limit != "" {
		place += ", limit " + wrong.Limit
	}
	if wrong.Limit != "" && wrong.Field == "Name" {
		problem, _, _ = strings.Cut(problem, ";")
		problem += "; an inline policy names each of several limits by its window and its dimensions, " +
			"and a policy file can choose other names"
	}
	return calls.BadInput("%s: %s", place, problem)
}

// defaultName returns the name of a policy without one: its limits in the letters of a name, or
// their beginning and a hash. Other limits have another name, so their histories begin empty.
func defaultName(limits []string) string {
	const digits = 12 // hexadecimal, of the hash
	whole := strings.Join(limits, " and ")
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789._"
	isBetween := func(c rune) bool { return !strings.ContainsRune(letters, c) }
	name := strings.Join(strings.FieldsFunc(strings.ToLower(whole), isBetween), "-")
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(whole))
	beginning := strings.TrimRight(name[:maxName-digits-1], "-")
	return beginning + "-" + hex.EncodeToString(sum[:])[:digits]
}
