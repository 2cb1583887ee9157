package conformance

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
)

// reduce shortens a history while fails still finds a mismatch in it. It removes the steps
// after the mismatch, then runs of steps, longest first, then limits and large numbers.
// It returns the shortest history and its mismatch, or v and nil if v does not fail.
func reduce(v *vector, fails func(*vector) *mismatch) (*vector, *mismatch) {
	r := reducer{fails: fails, best: v}
	if !r.try(v.with(v.steps)) {
		return v, nil
	}
	for r.dropSteps() || r.dropLimits() {
	}
	r.simplify()
	rule := rulesByField[r.found.field()][0]
	r.best.name = fmt.Sprintf("R%d: Found by the differential; describe it here.", rule)
	r.best.write()
	return r.best, r.found
}

// reducer holds the shortest history so far and its mismatch.
type reducer struct {
	fails func(*vector) *mismatch
	best  *vector
	found *mismatch
}

// try replaces the best history by c if c fails too. r owns c.
func (r *reducer) try(c *vector) bool {
	found := r.fails(c)
	if found == nil {
		return false
	}
	c.steps = c.steps[:found.step+1]
	r.best, r.found = c, found
	return true
}

// with returns v with a copy of steps.
func (v *vector) with(steps []step) *vector {
	c := *v
	c.steps = slices.Clone(steps)
	c.notes = nil
	return &c
}

// dropSteps removes runs of steps and reports whether it removed any. The last step, at
// which the history fails, stays.
func (r *reducer) dropSteps() (dropped bool) {
	for size := len(r.best.steps) / 2; size > 0; size /= 2 {
		for from := len(r.best.steps) - 1 - size; from >= 0; from -= size {
			if from+size >= len(r.best.steps) {
				continue
			}
			c := r.best.with(r.best.steps)
			c.steps = slices.Delete(c.steps, from, from+size)
			dropped = r.try(c) || dropped
		}
	}
	return dropped
}

// dropLimits removes limits and reports whether it removed any.
func (r *reducer) dropLimits() (dropped bool) {
	for i := len(r.best.policies[0].limits) - 1; i >= 0 && len(r.best.policies[0].limits) > 1; i-- {
		c := r.best.with(r.best.steps)
		b := c.policies[0].clone()
		name := b.limits[i].Name
		b.limits = slices.Delete(b.limits, i, i+1)
		b.order = slices.DeleteFunc(b.order, func(n string) bool { return n == name })
		c.policies = []*mutablePolicy{b}
		for j := range c.steps {
			c.steps[j].key = keyFor(b, c.steps[j].key)
		}
		dropped = r.try(c) || dropped
	}
	return dropped
}

// keyFor returns the part of a key that some limit of b counts by.
func keyFor(b *mutablePolicy, key []keyPart) []keyPart {
	return slices.DeleteFunc(slices.Clone(key), func(part keyPart) bool {
		return !slices.ContainsFunc(b.limits, func(limit weir.Limit) bool { return slices.Contains(limit.By, part.dim) })
	})
}

// simplify tries steps without states and with fewer units.
func (r *reducer) simplify() {
	for i := 0; i < len(r.best.steps); i++ {
		if r.best.steps[i].states {
			c := r.best.with(r.best.steps)
			c.steps[i].states = false
			r.try(c)
		}
		for _, n := range []int64{1, 2} {
			if i < len(r.best.steps) && r.best.steps[i].n > n {
				c := r.best.with(r.best.steps)
				c.steps[i].n = n
				r.try(c)
			}
		}
	}
}
