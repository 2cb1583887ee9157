package policy

import "github.com/weirlimit/weir/policy/internal/strictyaml"

// word is one word of the file. The checker and the schema use the same tables of words.
type word[T any] struct {
	name   string
	help   string // for editors
	takes  takes
	values []string // of a choice, the default first
	set    func(c *checker, target T, key, value *strictyaml.Node) bool
}

// takes is the kind of value that a word has.
type takes uint8

const (
	takesVersion   takes = iota // the number 1
	takesPolicies               // a map of names to policies
	takesText                   // a sentence
	takesLimit                  // a limit line, or the long form
	takesLimits                 // a map of names to limits
	takesChoice                 // one of the values
	takesCells                  // 0 … maxCells
	takesMax                    // a count, or unlimited
	takesUnit                   // a word for the counted unit
	takesWindow                 // a window
	takesKeys                   // a key, or a list of keys
	takesLength                 // a length of time
	takesSwitch                 // true or false
	takesName                   // a name
	takesPlans                  // a map of names to changes
	takesOverrides              // a list of overrides
	takesValues                 // a map of keys to values
	takesCosts                  // a map of limits to n or a number
	takesEnd                    // a day, an instant or forever
	takesTests                  // a map of sentences to tests
	takesSteps                  // a list of steps
	takesInstant                // a day or an instant
	takesUnits                  // 0 … weir.MaxUnits
	takesTimes                  // 1 … maxTimes
	takesWhole                  // a whole number, also below 0
	takesWait                   // a length of time, or never
	takesExpect                 // allowed or denied; there is no default
)

// maxCells is the largest number of cells, which is an int on every platform. A cell of
// the longest window is then 17 ms wide.
const maxCells = 1<<31 - 1

var fileWords = []word[*File]{
	{name: "version", takes: takesVersion, set: (*checker).setVersion,
		help: "The version of the file's language: 1."},
	{name: "policies", takes: takesPolicies, set: (*checker).setPolicies,
		help: "The policies by name. Names are [a-z0-9][a-z0-9._-]{0,63}. Histories belong to the name, so a renamed policy starts afresh."},
	{name: "tests", takes: takesTests, set: (*checker).deferTests,
		help: "The intended behaviour, a sentence for each test. weir test runs them in virtual time."},
}

// requiredWords are the words that every file must have.
var requiredWords = []string{"version", "policies"}

// The values of denied and batch. Together they select the weir.Mode.
var (
	deniedValues = []string{free, counted}
	batchValues  = []string{whole, partial}
)

const (
	free    = "free"
	counted = "counted"
	whole   = "whole"
	partial = "partial"
)

var policyWords = []word[*policyBuilder]{
	{name: "about", takes: takesText, set: (*checker).setAbout,
		help: "The purpose of the policy, in a sentence for people."},
	{name: "limit", takes: takesLimit, set: (*checker).setLimit,
		help: "The only limit of the policy, such as: 10 messages per day per phone, 3s apart. Windows roll unless the limit is fixed."},
	{name: "limits", takes: takesLimits, set: (*checker).setLimits,
		help: "Several limits by name, decided together: an attempt that one denies is charged to none."},
	{name: "denied", takes: takesChoice, values: deniedValues, set: (*checker).setDenied,
		help: "free: a denied attempt costs nothing. counted: it counts like any other, so a key that keeps trying stays denied."},
	{name: "batch", takes: takesChoice, values: batchValues, set: (*checker).setBatch,
		help: "whole: an attempt of several units gets all of them or none. partial: it gets as many as fit."},
	{name: "cells", takes: takesCells, set: (*checker).setCells,
		help: "0: windows are exact. N: instants are rounded to a grid of N cells a window, which bounds memory and denies up to 1/(N+1) more, never less. Fixed windows need none."},
	{name: "when-store-is-down", takes: takesChoice, values: storeDownValues, set: (*checker).setWhenStoreIsDown,
		help: "The decision while the store is unreachable. deny: none is granted. allow: all are granted. local: each process limits on its own."},
	{name: "count", takes: takesChoice, values: countValues, set: (*checker).setCount,
		help: "attempts: a granted attempt is charged. reported: an attempt is only a peek; records are charged later, such as failed logins."},
	{name: "shadow", takes: takesSwitch, set: (*checker).setShadow,
		help: "true: attempts are decided and counted, and all are allowed. This shows the effect of a limit."},
	{name: "costs", takes: takesCosts, set: (*checker).deferCosts,
		help: "The units that an attempt of n units takes of each limit: n, or a fixed number, as in {requests: 1, tokens: n}. Default: n of each."},
	{name: "plan-by", takes: takesName, set: (*checker).setPlanBy,
		help: "The value sent with the key, such as tier, that names one of the plans. Other values, or none, get the policy's own limits."},
	{name: "plans", takes: takesPlans, set: (*checker).deferPlans,
		help: "Other numbers for the limits, by the name of a plan. Windows, their kind and keys stay. A key that changes its plan keeps its history."},
	{name: "overrides", takes: takesOverrides, set: (*checker).deferOverrides,
		help: "Other numbers for some keys, until a day and for a reason. The first that has not expired applies."},
}

var overrideWords = []word[*overrideBuilder]{
	{name: "for", takes: takesValues, set: (*checker).setFor,
		help: "The keys it applies to: values of one or more of the keys that the policy counts by."},
	{name: "limit", takes: takesLimit, set: (*checker).setOverrideLimit,
		help: "The limit in place of the policy's only limit. The keys may be left out."},
	{name: "limits", takes: takesLimits, set: (*checker).setOverrideLimit,
		help: "The limits in place of the policy's limits, by name. Those that are not named stay."},
	{name: "plan", takes: takesName, set: (*checker).setOverridePlan,
		help: "The plan that applies, instead of the one that the request selects."},
	{name: "until", takes: takesEnd, set: (*checker).setUntil,
		help: "The last day on which it applies, to its end in UTC, or an instant, or forever. Afterwards it has no effect."},
	{name: "why", takes: takesText, set: (*checker).setWhy,
		help: "The reason, for readers of the file and of answers."},
}

var limitWords = []word[*limitBuilder]{
	{name: "max", takes: takesMax, set: (*checker).setMax,
		help: "The largest number of units in any window, or unlimited."},
	{name: "window", takes: takesWindow, set: (*checker).setWindow,
		help: "The length of the window: second, minute, hour, day, week, or a length such as 30m."},
	{name: "per", takes: takesKeys, set: (*checker).setKeys,
		help: "The keys that the limit counts by, one or a list. Without, all callers share it."},
	{name: "apart", takes: takesLength, set: (*checker).setApart,
		help: "The least time between two grants, such as 3s; at most the window."},
	{name: "block", takes: takesLength, set: (*checker).setBlock,
		help: "The time for which a key is denied after the limit has denied an attempt of it, such as 1h; 1ms to 400d."},
	{name: "kind", takes: takesChoice, values: kindValues, set: (*checker).setKind,
		help: "Where windows begin. rolling: everywhere, so never more than max in any. fixed: with the calendar, at multiples of the window since 1970, UTC. fixed-from-first-hit: with the first unit after the last one ended. Across the edge of two fixed windows up to twice max passes."},
	{name: "unit", takes: takesUnit, set: (*checker).setUnit,
		help: "The counted unit, in one word such as messages or cents. It is for people only."},
}

var testWords = []word[*testBuilder]{
	{name: "policy", takes: takesName, set: (*checker).setTestPolicy,
		help: "The policy to test."},
	{name: "from", takes: takesInstant, set: (*checker).setFrom,
		help: "The instant of 0s, a day or an instant. Without, an instant at which every override applies."},
	{name: "key", takes: takesValues, set: (*checker).setTestKey,
		help: "The key of the steps that name none."},
	{name: "steps", takes: takesSteps, set: (*checker).deferSteps,
		help: "The steps in the order of their instants. A test begins with empty histories."},
}

var stepWords = []word[*stepBuilder]{
	{name: "at", takes: takesLength, set: (*checker).setAt,
		help: "The time since the beginning of the test. Without, the instant of the step above."},
	{name: "do", takes: takesChoice, values: doValues, set: (*checker).setDo,
		help: "check: an attempt. peek: a decision that charges nothing. record: units without a decision. reset: delete the histories of the key."},
	{name: "key", takes: takesValues, set: (*checker).setStepKey,
		help: "The key, with the value that names a plan if there is one."},
	{name: "n", takes: takesUnits, set: (*checker).setN,
		help: "The number of units. Without, 1."},
	{name: "times", takes: takesTimes, set: (*checker).setTimes,
		help: "The number of repetitions at the same instant. Each must meet the expectation."},
	{name: "expect", takes: takesExpect, set: (*checker).setExpect,
		help: "allowed or denied: the decision, enforced or not."},
	{name: "granted", takes: takesUnits, set: (*checker).setGranted,
		help: "The units granted."},
	{name: "remaining", takes: takesWhole, set: (*checker).setRemaining,
		help: "The smallest remaining room of all limits afterwards. It can be below 0 after a record."},
	{name: "retry", takes: takesWait, set: (*checker).setRetry,
		help: "The exact wait until the same request fits, such as 57s, or never; 0s if it fits now."},
	{name: "limit", takes: takesName, set: (*checker).setStepLimit,
		help: "The limit that denied the request, or none."},
}

// apply sets every word of the map in target, in the order of the file, and reports
// whether all of them were accepted.
func apply[T any](c *checker, words []word[T], of string, m *strictyaml.Node, target T) bool {
	ok := true
	for key, value := range m.Pairs() {
		if w := find(words, key.Text); w == nil {
			ok = c.unknown(key, value, of, names(words))
		} else if !w.set(c, target, key, value) {
			ok = false
		}
	}
	return ok
}

// allKnown reports whether the table has every word of the map.
func allKnown[T any](words []word[T], m *strictyaml.Node) bool {
	for key := range m.Pairs() {
		if find(words, key.Text) == nil {
			return false
		}
	}
	return true
}

func find[T any](words []word[T], name string) *word[T] {
	for i := range words {
		if words[i].name == name {
			return &words[i]
		}
	}
	return nil
}

func names[T any](words []word[T]) []string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.name
	}
	return names
}
