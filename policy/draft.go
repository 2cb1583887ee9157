package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// draft is a limit as it is being read, with the places its parts came from: byte
// offsets, first in the text of a limit line, then in the document.
type limitBuilder struct {
	limit     weir.Limit
	unit      string
	block     time.Duration // 0 = none
	unlimited bool
	hasWindow bool
	hasKind   bool // in the long form
	at        offsets
}

// places are the offsets of the parts of a limit; of a part that is not there,
// that of the limit.
type offsets struct {
	name, max, window, apart, block, kind int
	keys                                  []int
}

// move replaces every offset but that of the name, which is in the document.
func (p *offsets) move(to func(int) int) {
	p.max, p.window, p.apart, p.block, p.kind = to(p.max), to(p.window), to(p.apart), to(p.block), to(p.kind)
	for i, at := range p.keys {
		p.keys[i] = to(at)
	}
}

// fault is what is wrong at an offset.
type fault struct {
	at            int
	problem, next string
}

func faultf(at int, next, problem string, args ...any) *fault {
	return &fault{at, fmt.Sprintf(problem, args...), next}
}

func (d *limitBuilder) setMax(at int, word string) *fault {
	d.at.max = at
	if word == wordUnlimited {
		d.unlimited = true
		return nil
	}
	n, problem := parseNumber(word)
	if count, window, slash := strings.Cut(word, "/"); slash && looksLikeWindow(window) {
		return faultf(at, "write "+count+" per "+window, "%s is not a whole number", clip(word))
	}
	if problem != "" {
		return faultf(at, "use a whole number such as 10 or 200_000, or unlimited", "%s %s", clip(word), problem)
	}
	d.limit.Max = n
	return nil
}

func (d *limitBuilder) setUnit(at int, word string) *fault {
	if !validUnit(word) {
		return faultf(at, "use one word of letters, such as messages or cents", "%s cannot be what the limit counts", clip(word))
	}
	d.unit = word
	return nil
}

// validUnit reports whether s is [A-Za-z][A-Za-z0-9_-]{0,31} and not a word of
// the grammar.
func validUnit(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '-' && c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 32 && !slices.Contains([]string{wordPer, wordApart, wordUnlimited}, s)
}

func (d *limitBuilder) setWindow(at int, word string) *fault {
	length, ok := parseWindow(word)
	if !ok {
		return faultf(at, nextWindow(word), "%s is not a window", clip(word))
	}
	d.limit.Window, d.hasWindow, d.at.window = length, true, at
	return nil
}

// units are the ways in which people shorten, or write out, a unit of time.
var units = map[string]struct{ name, suffix string }{
	"sec": {"second", "s"}, "second": {"second", "s"}, "min": {"minute", "m"}, "minute": {"minute", "m"}, "m": {"minute", "m"},
	"hr": {"hour", "h"}, "hour": {"hour", "h"}, "h": {"hour", "h"}, "day": {"day", "d"}, "d": {"day", "d"},
}

// nextWindow says what to write instead of a word that is not a window.
func nextWindow(word string) string {
	meant := strings.TrimSuffix(strings.ToLower(word), "s")
	if looksLikeWindow(meant) {
		return "write " + meant
	}
	digits := meant[:len(meant)-len(strings.TrimLeft(meant, "0123456789_"))]
	if unit, ok := units[meant[len(digits):]]; ok && digits == "" {
		return "write " + unit.name
	} else if ok {
		return "write " + digits + unit.suffix
	}
	if word == "month" || word == "year" {
		return "a window has one length, and this one varies: use one such as 30d or 365d"
	}
	if _, problem := parseNumber(word); problem == "" {
		return "write the number and its unit in one word, such as 90s, 30m, 24h"
	}
	return useWindow
}

func (d *limitBuilder) setApart(at int, word string) *fault {
	length, ok := parseLength(word)
	if !ok {
		return faultf(at, useLength, "%s is not a length of time", clip(word))
	}
	d.limit.MinInterval, d.at.apart = length, at
	return nil
}

func (d *limitBuilder) setBlock(at int, word string) *fault {
	length, ok := parseLength(word)
	switch {
	case !ok:
		return faultf(at, useLength, "%s is not a length of time", clip(word))
	case length < weir.MinWindow:
		return faultf(at, "use 1ms to 400d", "the block is shorter than 1ms")
	case length > weir.MaxWindow:
		return faultf(at, "use 1ms to 400d", "the block is longer than 400 days")
	}
	d.block, d.at.block = length, at
	return nil
}

// KindWord is the word of the long form for where a limit's windows begin: rolling,
// fixed or fixed-from-first-hit.
func KindWord(k weir.Kind) string {
	if int(k) < len(kindValues) {
		return kindValues[k]
	}
	return "unknown"
}

// kindValues are the words of a limit's kind in the long form, by value.
var kindValues = []string{weir.Rolling: "rolling", weir.Calendar: "fixed", weir.FirstHit: "fixed-from-first-hit"}

// fixedSentence is the kind in the words of a line, "" of a rolling limit.
func fixedSentence(k weir.Kind) string {
	switch k {
	case weir.Calendar:
		return ", " + wordFixed
	case weir.FirstHit:
		return ", " + wordFixed + " " + strings.Join(fromFirstHit, " ")
	}
	return ""
}

func (d *limitBuilder) addKey(at int, word string) *fault {
	switch {
	case len(d.limit.By) == weir.MaxDimensions:
		return faultf(at, "count by fewer", "more than %d keys", weir.MaxDimensions)
	case looksLikeWindow(word):
		return faultf(at, "use one window to a limit, and a policy with several limits for several", "%s is a window, not a key to count by", clip(word))
	case !weir.ValidName(word):
		return faultf(at, useName, "%s cannot be the name of a key", clip(word))
	case word == wordPer || word == wordApart:
		return faultf(at, "name what to count by, such as user or ip", "%s is not a key to count by", clip(word))
	case slices.Contains(d.limit.By, word):
		return faultf(at, "name each key once", "%s is there already", clip(word))
	}
	d.limit.By = append(d.limit.By, word)
	d.at.keys = append(d.at.keys, at)
	return nil
}

// settle completes a limit without a count: it allows MaxUnits. Where it has no
// window either, its window is the shortest that its spacing allows, so that next
// to nothing is remembered of it. Its keys stay part of the policy's key, and its
// name keeps a history that a number in its place would find again (R12).
func (d *limitBuilder) complete() {
	if !d.unlimited {
		return
	}
	d.limit.Max = weir.MaxUnits
	if !d.hasWindow {
		d.limit.Window, d.at.window = shortestWindow(d.limit), d.at.apart
	}
}

// shortestWindow is the window of an unlimited limit that names none.
func shortestWindow(l weir.Limit) time.Duration { return max(weir.MinWindow, l.MinInterval) }

const useName = "use 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit"
