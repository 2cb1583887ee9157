package weirtest

import (
	"fmt"
	"slices"
)

// reduce cuts a history down while fails still finds a mismatch in it: steps
// behind the mismatch, then runs of steps, longest first, then limits. It returns
// the shortest it found and its mismatch, or v and nil when v itself does not fail.
func reduce(v *vector, fails func(*vector) *mismatch) (*vector, *mismatch) {
	short, m := v, fails(v)
	if m == nil {
		return v, nil
	}
	try := func(c *vector) bool {
		found := fails(c)
		if found != nil {
			c.steps = c.steps[:found.step+1]
			short, m = c, found
		}
		return found != nil
	}
	try(short.with(short.steps[:m.step+1]))
	for again := true; again; {
		again = dropSteps(&short, try)
		again = dropLimits(&short, try) || again
	}
	simplify(&short, try)
	short.name = fmt.Sprintf("R%d: Found by the differential; say what it is about.", suspects[m.want.difference(m.got)][0])
	short.write()
	return short, m
}

// with returns v with other steps.
func (v *vector) with(steps []step) *vector {
	c := *v
	c.steps = slices.Clone(steps)
	c.notes = nil
	return &c
}

// dropSteps tries to do without runs of steps, and reports whether any went.
func dropSteps(short **vector, try func(*vector) bool) bool {
	any := false
	for size := len((*short).steps) / 2; size > 0; size /= 2 {
		for from := len((*short).steps) - 1 - size; from >= 0; from -= size {
			steps := (*short).steps
			if from+size > len(steps)-1 {
				continue
			}
			if try((*short).with(slices.Delete(slices.Clone(steps), from, from+size))) {
				any = true
			}
		}
	}
	return any
}

// dropLimits tries to do without whole limits.
func dropLimits(short **vector, try func(*vector) bool) bool {
	any := false
	for i := len((*short).books[0].limits) - 1; i >= 0; i-- {
		if len((*short).books[0].limits) == 1 {
			break
		}
		c := (*short).with((*short).steps)
		b := c.books[0].clone()
		name := b.limits[i].Name
		b.limits = slices.Delete(b.limits, i, i+1)
		b.order = slices.DeleteFunc(b.order, func(n string) bool { return n == name })
		c.books = []*book{b}
		for j := range c.steps {
			c.steps[j].key = keyFor(b, c.steps[j].key)
		}
		if try(c) {
			any = true
		}
	}
	return any
}

// keyFor is the part of a key that some limit of b counts by.
func keyFor(b *book, key []keyPart) []keyPart {
	var kept []keyPart
	for _, part := range key {
		for _, limit := range b.limits {
			if slices.Contains(limit.By, part.dim) && !slices.Contains(kept, part) {
				kept = append(kept, part)
			}
		}
	}
	return kept
}

// simplify tries smaller units and answers without states.
func simplify(short **vector, try func(*vector) bool) {
	for i := range (*short).steps {
		if i >= len((*short).steps) {
			break
		}
		c := (*short).with((*short).steps)
		if c.steps[i].states = false; (*short).steps[i].states {
			try(c)
		}
		for _, n := range []int64{1, 2} {
			if i < len((*short).steps) && (*short).steps[i].n > n {
				c := (*short).with((*short).steps)
				c.steps[i].n = n
				if try(c) {
					break
				}
			}
		}
	}
}
