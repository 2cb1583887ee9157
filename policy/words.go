package policy

import "github.com/weirlimit/weir/policy/internal/strictyaml"

// word is one word of the file. The checker and the schema are made of the same
// tables of words.
type word[T any] struct {
	name   string
	help   string // for editors
	takes  takes
	values []string // of a choice, the default first
	set    func(c *checker, target T, key, value *strictyaml.Node) error
}

// takes is what may stand behind a word.
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
	takesUnit                   // a word for what is counted
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
	takesTimes                  // 1 … mostTimes
	takesWhole                  // a whole number, also below 0
	takesWait                   // a length of time, or never
	takesExpect                 // allowed or denied; there is no default
)

// maxCells is the largest number of cells: an int everywhere, and with it a cell of
// the longest window is 17 ms wide.
const maxCells = 1<<31 - 1

var fileWords = []word[*File]{
	{name: "version", takes: takesVersion, set: (*checker).setVersion,
		help: "The version of the file's language: 1."},
	{name: "policies", takes: takesPolicies, set: (*checker).setPolicies,
		help: "The policies by name. Names are [a-z0-9][a-z0-9._-]{0,63}; they tell histories apart, so a renamed policy starts afresh."},
	{name: "tests", takes: takesTests, set: (*checker).deferTests,
		help: "What the policies are meant to do, by a sentence each; weir test runs them in virtual time."},
}

// requiredWords are those of fileWords that no file may lack.
var requiredWords = []string{"version", "policies"}

// The values of denied and batch, which together make a weir.Mode.
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
		help: "What the policy is for, in a sentence for people."},
	{name: "limit", takes: takesLimit, set: (*checker).setLimit,
		help: "The only limit of the policy, such as: 10 messages per day per phone, 3s apart. Windows roll unless it says fixed."},
	{name: "limits", takes: takesLimits, set: (*checker).setLimits,
		help: "Several limits by name, decided together: what one refuses, none counts."},
	{name: "denied", takes: takesChoice, values: deniedValues, set: (*checker).setDenied,
		help: "free: a refused attempt costs nothing. counted: it counts like any other, so who keeps hammering stays out."},
	{name: "batch", takes: takesChoice, values: batchValues, set: (*checker).setBatch,
		help: "whole: an attempt of several units gets all of them or none. partial: it gets as many as fit."},
	{name: "cells", takes: takesCells, set: (*checker).setCells,
		help: "0: windows are exact. N: instants are rounded to a grid of N cells a window, which bounds memory and refuses up to 1/(N+1) more, never less. Fixed windows need none."},
	{name: "when-store-is-down", takes: takesChoice, values: storeDownValues, set: (*checker).setWhenStoreIsDown,
		help: "What becomes of attempts while the store cannot be asked. deny: refused. allow: pass, unlimited. local: each process limits on its own."},
	{name: "count", takes: takesChoice, values: countValues, set: (*checker).setCount,
		help: "attempts: a granted attempt is charged. reported: an attempt only looks, and what is recorded later is charged, such as logins that failed."},
	{name: "shadow", takes: takesSwitch, set: (*checker).setShadow,
		help: "true: attempts are decided and counted, and pass whatever was decided. To see what a limit would do."},
	{name: "costs", takes: takesCosts, set: (*checker).deferCosts,
		help: "What an attempt of n units takes of each limit: n, or a number whatever n is, as in {requests: 1, tokens: n}. Without, n of each."},
	{name: "plan-by", takes: takesName, set: (*checker).setPlanBy,
		help: "The value sent with the key, such as tier, that names one of the plans. Another value, or none, gets the policy's own limits."},
	{name: "plans", takes: takesPlans, set: (*checker).deferPlans,
		help: "Other numbers for the limits, by the name of a plan. Windows, their kind and keys stay; history too, when a key changes its plan."},
	{name: "overrides", takes: takesOverrides, set: (*checker).deferOverrides,
		help: "Other numbers for some keys, until a day and for a reason. Of several the first that has not expired applies."},
}

var overrideWords = []word[*overrideBuilder]{
	{name: "for", takes: takesValues, set: (*checker).setFor,
		help: "Whom it is for: values of one or more of the keys that the policy counts by."},
	{name: "limit", takes: takesLimit, set: (*checker).setOverrideLimit,
		help: "What they get in place of the policy's only limit. The keys may be left out."},
	{name: "limits", takes: takesLimits, set: (*checker).setOverrideLimit,
		help: "What they get in place of the policy's limits, by name. Those that are not named stay."},
	{name: "plan", takes: takesName, set: (*checker).setOverridePlan,
		help: "The plan they get, whatever they ask with."},
	{name: "until", takes: takesEnd, set: (*checker).setUntil,
		help: "The last day on which it applies, to its end in UTC, or an instant, or forever. Later it is as if it were not there."},
	{name: "why", takes: takesText, set: (*checker).setWhy,
		help: "The reason, for who reads the file or an answer."},
}

var limitWords = []word[*limitBuilder]{
	{name: "max", takes: takesMax, set: (*checker).setMax,
		help: "The largest number of units in any window, or unlimited."},
	{name: "window", takes: takesWindow, set: (*checker).setWindow,
		help: "The length of the window: second, minute, hour, day, week, or a length such as 30m."},
	{name: "per", takes: takesKeys, set: (*checker).setKeys,
		help: "What the limit counts by, one key or a list; without, all callers share it."},
	{name: "apart", takes: takesLength, set: (*checker).setApart,
		help: "The least time between two grants, such as 3s; at most the window."},
	{name: "block", takes: takesLength, set: (*checker).setBlock,
		help: "How long a key is refused after the limit has refused an attempt of it, such as 1h; 1ms to 400d."},
	{name: "kind", takes: takesChoice, values: kindValues, set: (*checker).setKind,
		help: "Where windows begin. rolling: everywhere, so never more than max in any. fixed: with the calendar, at multiples of the window since 1970, UTC. fixed-from-first-hit: with the first unit after the last one ended. Across the edge of two fixed windows up to twice max passes."},
	{name: "unit", takes: takesUnit, set: (*checker).setUnit,
		help: "What is counted, in one word such as messages or cents. It is for people only."},
}

var testWords = []word[*testBuilder]{
	{name: "policy", takes: takesName, set: (*checker).setTestPolicy,
		help: "The policy to try."},
	{name: "from", takes: takesInstant, set: (*checker).setFrom,
		help: "The instant of 0s, a day or an instant; without, one at which every override applies."},
	{name: "key", takes: takesValues, set: (*checker).setTestKey,
		help: "The key of the steps that name none."},
	{name: "steps", takes: takesSteps, set: (*checker).deferSteps,
		help: "What happens, in the order of the instants. A test begins with empty histories."},
}

var stepWords = []word[*stepBuilder]{
	{name: "at", takes: takesLength, set: (*checker).setAt,
		help: "When, counted from the beginning of the test; without, at the instant of the step above."},
	{name: "do", takes: takesChoice, values: doValues, set: (*checker).setDo,
		help: "check: an attempt. peek: a look. record: units without asking. reset: the histories of the key are forgotten."},
	{name: "key", takes: takesValues, set: (*checker).setStepKey,
		help: "Whose, with the value that names a plan if there is one."},
	{name: "n", takes: takesUnits, set: (*checker).setN,
		help: "How many units; without, 1."},
	{name: "times", takes: takesTimes, set: (*checker).setTimes,
		help: "How often, one after the other at the same instant; each must come to what is expected."},
	{name: "expect", takes: takesExpect, set: (*checker).setExpect,
		help: "allowed or denied: what is decided, whether it is enforced or not."},
	{name: "granted", takes: takesUnits, set: (*checker).setGranted,
		help: "The units that are granted."},
	{name: "remaining", takes: takesWhole, set: (*checker).setRemaining,
		help: "The least room of all limits afterwards; below 0 after a record."},
	{name: "retry", takes: takesWait, set: (*checker).setRetry,
		help: "The exact wait until the same fits, such as 57s, or never; 0s where it fits now."},
	{name: "limit", takes: takesName, set: (*checker).setStepLimit,
		help: "The limit that stood in the way, or none."},
}

// apply does what every word of the map says to target, in the order of the file.
func apply[T any](c *checker, words []word[T], of string, m *strictyaml.Node, target T) error {
	for key, value := range m.Pairs() {
		w := find(words, key.Text)
		if w == nil {
			return c.unknown(key, value, of, names(words))
		}
		if err := w.set(c, target, key, value); err != nil {
			return err
		}
	}
	return nil
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
