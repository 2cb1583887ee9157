// Package dims derives the dimensions of a policy whose limits come from elsewhere, such as a
// file or a random generator. A policy in Go declares them itself.
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
