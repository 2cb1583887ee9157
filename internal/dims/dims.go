// Package dims derives the dimensions of a policy from its limits, such as those of a file or of a
// random generator. A policy in Go declares its dimensions.
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
