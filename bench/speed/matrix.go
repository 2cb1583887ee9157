package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// square is one place of the matrix: a state of the keys and a way to ask.
type square struct {
	keys       number
	live       int // live entries a key; 0 = as many as a window of 1 ms holds
	goroutines int
	denied     bool // every attempt is denied; otherwise every attempt is granted
	zipf       bool // few keys get most attempts, and these are at their limit
}

// number is the number of keys in words, because -quick has fewer.
type number string

const (
	hot  number = "1 key"
	some number = "10,000 keys"
	many number = "1,000,000 keys"
)

func (n number) keys() int {
	switch n {
	case hot:
		return 1
	case some:
		return scale.some
	}
	return scale.keys
}

// squares returns the whole matrix. Four parts of it are left out, and leftOut gives the
// reasons.
func squares() (all []square) {
	for _, goroutines := range []int{1, 8} {
		all = append(all, square{keys: hot, goroutines: goroutines})
	}
	for _, keys := range []number{hot, some} {
		for _, denied := range []bool{false, true} {
			for _, live := range []int{1, 30, 300} {
				for _, goroutines := range []int{1, 8} {
					if keys == some || denied {
						all = append(all, square{keys: keys, live: live, goroutines: goroutines, denied: denied})
					}
				}
			}
		}
	}
	for _, goroutines := range []int{1, 8} {
		all = append(all,
			square{keys: many, live: 1, goroutines: goroutines},
			square{keys: many, live: 1, goroutines: goroutines, denied: true},
			square{keys: many, live: 1, goroutines: goroutines, zipf: true})
	}
	return all
}

const leftOut = "Left out: 1, 30 and 300 live entries of one granted key, because no window is shorter than 1 ms, " +
	"and a window of 1 ms holds thousands. And 30 and 300 live entries of 1,000,000 keys: the plain exact log alone would need up to 7 GB."

func (s square) name() string {
	words := []string{string(s.keys)}
	if s.live > 0 && !s.zipf {
		words = append(words, fmt.Sprintf("%d live", s.live))
	}
	words = append(words, s.outcome())
	if s.goroutines == 1 {
		return strings.Join(append(words, "1 goroutine"), ", ")
	}
	return strings.Join(append(words, fmt.Sprintf("%d goroutines", s.goroutines)), ", ")
}

func (s square) outcome() string {
	switch {
	case s.zipf:
		return "Zipf"
	case s.denied:
		return "denied"
	}
	return "granted"
}

// load returns the attempts of the square. Limits of granted attempts are far above the
// live entries, so that no chance and no faster machine reaches them.
func (s square) load() load {
	d := load{keys: s.keys.keys(), goroutines: s.goroutines, prefill: 1}
	switch {
	case s.denied:
		d.limit, d.window, d.prefill = s.live, time.Hour, s.live
	case s.zipf:
		d.limit, d.live, d.zipf = 100, s.live, true
	case s.live == 0:
		d.limit, d.window = 50_000, time.Millisecond
	default:
		d.limit, d.live = 4*s.live+100, s.live
	}
	return d
}

// near are the contestants of every square: Weir and the peers that are near it
// somewhere. The others take part where everyone reports true.
var near = []string{
	peers.Weir, "x/time/rate", "throttled", "sethvargo/go-limiter", "httprate counter", "failsafe-go bursty", "juju/ratelimit",
	"RussellLuo/slidingwindow", "plain exact log",
}

// everyone reports whether all contestants and the yardsticks take part.
func (s square) everyone() bool { return s.keys != many && (s.live == 0 || s.live == 30) }

func (s square) workload() contest.Workload {
	w := contest.Workload{Name: s.name(), Contestants: near, Run: s.load().measure}
	if s.everyone() {
		w.Contestants = append(names(), yardsticks...)
	}
	return w
}

// share returns the share of attempts that a square means to grant. It differs between the
// algorithms if a few keys get most attempts.
func (s square) share() (share float64, ok bool) {
	if s.denied {
		return 0, true
	}
	return 1, !s.zipf
}

const insert = "insert 1,000,000 keys"

// timed returns the workloads that compare processor time per decision.
func timed() (all []contest.Workload) {
	for _, s := range squares() {
		all = append(all, s.workload())
	}
	return append(all, contest.Workload{
		Name: insert, MaxRounds: 5, Contestants: append(names(), yardsticks[:2]...), Run: insertKeys,
		About: "one goroutine sends one attempt for each of many new keys, the collector's work included",
	})
}

// ofKeys returns the names of the timed workloads on a number of keys.
func ofKeys(keys number) (found []string) {
	for _, s := range squares() {
		if s.keys == keys {
			found = append(found, s.name())
		}
	}
	if keys == many {
		found = append(found, insert)
	}
	return found
}

// meant returns the share of attempts that a workload means to grant.
func meant(workload string) (share float64, ok bool) {
	if workload == insert {
		return 1, true
	}
	i := slices.IndexFunc(squares(), func(s square) bool { return s.name() == workload })
	if i < 0 {
		return 0, false
	}
	return squares()[i].share()
}

// yardsticks are rows for comparison, not contestants; see the package peers.
var yardsticks = []string{"floor", "floor, 64 locks", "loop"}

// names returns the names of the timed contestants, Weir first.
func names() []string {
	var n []string
	for _, p := range peers.Timed() {
		n = append(n, p.Name)
	}
	return n
}

// explainMatrix describes the rows and columns of the tables of processor time.
func (p page) explainMatrix() {
	fmt.Fprintln(p.w, `
Squares of the matrix:
- *granted*: every attempt is granted, and a key has so many live entries on average. An entry lives for one window, so each contestant gets the window that holds them at its own speed by the clock, at least 1 ms. The limit is 4 times the live entries and 100 more. With one key it is 50,000 per 1 ms.
- *denied*: the limit is the number of live entries, per hour, and used up before.
- *Zipf*: keys are chosen by Zipf's law; 100 per window, and the window holds one attempt a key on average. So hot keys are at their limit.
- *insert 1,000,000 keys*: one goroutine sends one attempt for each of many new keys, the collector's work included.`)
	fmt.Fprintf(p.w, "- %s\n", leftOut)
	fmt.Fprintln(p.w, "\n"+report.Behind+" Weir is behind this contestant. "+
		"A contestant without a figure does not take part there: on the largest numbers of entries and keys these are the ones that were never near. "+
		"Three rows are no contestants. *floor*: an exact yes or no for one limit behind one lock, without remaining units, waits or forgetting. "+
		"*floor, 64 locks*: the same for each of 64 parts of the keys, as many as Weir has. *loop*: a limiter that does nothing. "+
		"† granted a different share than the workload expects, by more than one decision in a hundred.")
}
