// Package dims declares the dimensions of policies that tests make of random limits.
package dims

import (
	"slices"

	"github.com/weirlimit/weir"
)

// Of returns the dimensions that limits count by, in order of first appearance, for the
// Dimensions of their policy.
func Of(limits ...weir.Limit) (names []string) {
	for _, l := range limits {
		for _, name := range l.By {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
