// Package race makes tests shorter under the race detector, where a step costs ten times as
// much. It is for long random or repeated histories, most of them by one goroutine, in which
// the detector finds nothing. Without the detector they have their full length.
package race

// Enabled reports whether the race detector watches the test.
const Enabled = enabled

// Fewer returns n, or a quarter under the race detector.
func Fewer(n int) int {
	if Enabled {
		return max(1, n/4)
	}
	return n
}
