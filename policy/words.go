package policy

import "github.com/weirlimit/weir/policy/internal/strictyaml"

// word is one word of the file. The checker and the schema are made of the same
// tables of words.
type word[T any] struct {
	name   string
	means  string // for editors
	takes  takes
	values []string // of a choice, the default first
	set    func(c *checker, target T, key, value *strictyaml.Node) error
}

// takes is what may stand behind a word.
type takes uint8

const (
	takesVersion  takes = iota // the number 1
	takesPolicies              // a map of names to policies
	takesText                  // a sentence
	takesLimit                 // a limit line, or the long form
	takesLimits                // a map of names to limits
	takesChoice                // one of the values
	takesCells                 // 0 … maxCells
	takesMax                   // a count, or unlimited
	takesUnit                  // a word for what is counted
	takesWindow                // a window
	takesKeys                  // a key, or a list of keys
	takesLength                // a length of time
)

// maxCells is the largest number of cells: an int everywhere, and with it a cell of
// the longest window is 17 ms wide.
const maxCells = 1<<31 - 1

var fileWords = []word[*File]{
	{name: "version", takes: takesVersion, set: (*checker).setVersion,
		means: "The version of the file's language: 1."},
	{name: "policies", takes: takesPolicies, set: (*checker).setPolicies,
		means: "The policies by name. Names are [a-z0-9][a-z0-9._-]{0,63}; they tell histories apart, so a renamed policy starts afresh."},
}

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

var policyWords = []word[*policyDraft]{
	{name: "about", takes: takesText, set: (*checker).setAbout,
		means: "What the policy is for, in a sentence for people."},
	{name: "limit", takes: takesLimit, set: (*checker).setLimit,
		means: "The only limit of the policy, such as: 10 messages per day per phone, 3s apart. All windows roll."},
	{name: "limits", takes: takesLimits, set: (*checker).setLimits,
		means: "Several limits by name, decided together: what one refuses, none counts."},
	{name: "denied", takes: takesChoice, values: deniedValues, set: (*checker).setDenied,
		means: "free: a refused attempt costs nothing. counted: it counts like any other, so who keeps hammering stays out."},
	{name: "batch", takes: takesChoice, values: batchValues, set: (*checker).setBatch,
		means: "whole: an attempt of several units gets all of them or none. partial: it gets as many as fit."},
	{name: "cells", takes: takesCells, set: (*checker).setCells,
		means: "0: windows are exact. N: instants are rounded to a grid of N cells a window, which bounds memory and refuses up to 1/(N+1) more, never less."},
	{name: "when-store-is-down", takes: takesChoice, values: storeDowns, set: (*checker).setWhenStoreIsDown,
		means: "What becomes of attempts while the store cannot be asked. deny: refused. allow: pass, unlimited. local: each process limits on its own."},
}

var limitWords = []word[*draft]{
	{name: "max", takes: takesMax, set: (*checker).setMax,
		means: "The largest number of units in any window, or unlimited."},
	{name: "window", takes: takesWindow, set: (*checker).setWindow,
		means: "The length of the rolling window: second, minute, hour, day, week, or a length such as 30m."},
	{name: "per", takes: takesKeys, set: (*checker).setKeys,
		means: "What the limit counts by, one key or a list; without, all callers share it."},
	{name: "apart", takes: takesLength, set: (*checker).setApart,
		means: "The least time between two grants, such as 3s; at most the window."},
	{name: "unit", takes: takesUnit, set: (*checker).setUnit,
		means: "What is counted, in one word such as messages or cents. It is for people only."},
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
