package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// mutablePolicy is a policy with numbers that change while its histories stay (R12).
type mutablePolicy struct {
	name   string
	mode   weir.Mode
	limits []weir.Limit // all declared limits
	order  []string     // names of the limits in use, in this order
}

var modeWords = []string{"all", "partial", "denied"} // in the order of weir.Mode

var kindWords = []string{"rolling", "calendar", "first-hit"} // in the order of weir.Kind

// current returns the policy with its present numbers, its name after prefix.
func (b *mutablePolicy) current(prefix string) weir.Policy {
	p := weir.Policy{Name: prefix + b.name, Mode: b.mode}
	for _, name := range b.order {
		p.Limits = append(p.Limits, b.limits[b.index(name)])
	}
	return p
}

// index returns the index of the declared limit of that name, or -1.
func (b *mutablePolicy) index(name string) int {
	return slices.IndexFunc(b.limits, func(l weir.Limit) bool { return l.Name == name })
}

// clone returns a book that can be changed without changing b.
func (b *mutablePolicy) clone() *mutablePolicy {
	c := *b
	c.limits = slices.Clone(b.limits)
	c.order = slices.Clone(b.order)
	return &c
}

// declare adds a limit: NAME max=N window=D [gap=D] [cells=N] [cost=N] [kind=K] [by=DIM,DIM].
func (b *mutablePolicy) declare(words []string) error {
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return fmt.Errorf("a limit begins with its name: limit NAME max=N window=D")
	}
	if b.index(words[0]) >= 0 || words[0] == "order" {
		return fmt.Errorf("the limit's name %q is taken", words[0])
	}
	b.limits = append(b.limits, weir.Limit{Name: words[0]})
	b.order = append(b.order, words[0])
	return b.set(words)
}

// change applies the words of a change line: mode=M, order NAME…, or NAME and the new
// fields of the limit.
func (b *mutablePolicy) change(words []string) error {
	switch {
	case len(words) == 0:
		return fmt.Errorf("a change needs mode=M, order NAME…, or NAME field=value…")
	case strings.HasPrefix(words[0], "mode=") && len(words) == 1:
		return b.setMode(words[0])
	case words[0] == "order":
		for _, name := range words[1:] {
			if b.index(name) < 0 {
				return fmt.Errorf("no limit is named %q", name)
			}
		}
		b.order = slices.Clone(words[1:])
		return nil
	}
	return b.set(words)
}

func (b *mutablePolicy) setMode(word string) error {
	i := slices.Index(modeWords, strings.TrimPrefix(word, "mode="))
	if i < 0 {
		return fmt.Errorf("%q is not a mode; use mode=all, mode=partial or mode=denied", word)
	}
	b.mode = weir.Mode(i)
	return nil
}

// set assigns the fields in words[1:] to the limit named words[0].
func (b *mutablePolicy) set(words []string) error {
	i := b.index(words[0])
	if i < 0 {
		return fmt.Errorf("no limit is named %q", words[0])
	}
	for _, word := range words[1:] {
		if err := setField(&b.limits[i], word); err != nil {
			return err
		}
	}
	return nil
}

func setField(limit *weir.Limit, word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "max":
		limit.Max, err = strconv.ParseInt(value, 10, 64)
	case "window":
		limit.Window, err = time.ParseDuration(value)
	case "gap":
		limit.MinInterval, err = time.ParseDuration(value)
	case "cells":
		limit.Cells, err = strconv.Atoi(value)
	case "cost":
		limit.Cost, err = strconv.ParseInt(value, 10, 64)
	case "kind":
		i := slices.Index(kindWords, value)
		if i < 0 {
			return fmt.Errorf("%q is not a kind; use kind=rolling, kind=calendar or kind=first-hit", word)
		}
		limit.Kind = weir.Kind(i)
	case "by":
		limit.By = strings.Split(value, ",")
	default:
		err = fmt.Errorf("unknown word %q; a limit has max, window, gap, cells, cost, kind and by", word)
	}
	return err
}

// limitText formats a limit as in a vector.
func limitText(limit weir.Limit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "limit %s max=%d window=%s", limit.Name, limit.Max, spanText(limit.Window))
	if limit.MinInterval > 0 {
		fmt.Fprintf(&b, " gap=%s", spanText(limit.MinInterval))
	}
	if limit.Cells > 0 {
		fmt.Fprintf(&b, " cells=%d", limit.Cells)
	}
	if limit.Cost > 0 {
		fmt.Fprintf(&b, " cost=%d", limit.Cost)
	}
	if limit.Kind != weir.Rolling {
		fmt.Fprintf(&b, " kind=%s", kindWords[limit.Kind])
	}
	if len(limit.By) > 0 {
		fmt.Fprintf(&b, " by=%s", strings.Join(limit.By, ","))
	}
	return b.String()
}
