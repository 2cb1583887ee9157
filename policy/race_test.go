//go:build race

package policy

// bombSize is small where every step costs twenty times as much.
const bombSize = MaxBytes / 16
