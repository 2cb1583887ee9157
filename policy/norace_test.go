//go:build !race

package policy

// bombSize is the size of the files of TestHostileFilesAllocateLittle.
const bombSize = MaxBytes
