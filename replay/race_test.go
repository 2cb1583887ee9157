//go:build race

package replay

// raceEnabled: under the race detector the runtime allocates by itself.
const raceEnabled = true
