package weir

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/calendar"
)

// Compile checks every field of the policy and returns its rules for engines. The error is a
// *PolicyError that names the limit and the field.
func (p Policy) Compile() (*engine.Compiled, error) {
	p = p.named()
	if err := p.check(); err != nil {
		return nil, err
	}
	var dimensions []string
	limits := make([]engine.Limit, len(p.Limits))
	for i := range p.Limits {
		limits[i] = p.Limits[i].compile(&dimensions)
	}
	if n := len(dimensions); n > MaxDimensions {
		return nil, &PolicyError{Policy: p.Name, Field: "Limits",
			Problem: fmt.Sprintf("the limits count by %d dimensions; %d are allowed", n, MaxDimensions)}
	}
	return engine.Compile(p.Name, p.Mode, dimensions, limits), nil
}

// compile turns a checked limit into numbers. It adds dimensions that are new to those of
// the policy, in order of first appearance.
func (l *Limit) compile(dimensions *[]string) engine.Limit {
	c := engine.Limit{
		Name:        l.Name,
		Max:         l.Max,
		Window:      l.window().Microseconds(),
		MinInterval: l.MinInterval.Microseconds(),
		Cost:        l.Cost,
		Kind:        l.Kind,
		Capacity:    l.Capacity(),
	}
	if l.Period != NoPeriod {
		zone, _ := loadZone(l.Zone)
		c.Period = &calendar.Windows{Period: l.Period, Anchor: max(l.Anchor, 1), Zone: zone}
	}
	if l.Cells > 0 {
		c.Cell = (c.Window-1)/int64(l.Cells) + 1 // rounded up
	}
	for _, dim := range l.By {
		i := slices.Index(*dimensions, dim)
		if i < 0 {
			i = len(*dimensions)
			*dimensions = append(*dimensions, dim)
		}
		c.By = append(c.By, i)
	}
	return c
}
