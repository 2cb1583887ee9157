// Package adversary sends requests to a limiter at its worst moments and counts from outside how
// many of them it allows in one window.
//
// A caller measures two instants of a grant: the call and the return. The limiter decided
// between them. A grant counts only if its interval [Call, Return] lies entirely inside a
// window. So timing noise, a preempted goroutine or a slow clock can make the count too
// low, never too high: every counted grant was provably allowed.
//
// Trade-off: the counts are lower bounds. A limiter of 20 that shows 20 may still allow more; one
// that shows 39 certainly does. A proof would need the program's source.
package adversary
