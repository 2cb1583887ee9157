// Package option applies functional options, by one rule for all packages.
package option

// Apply applies the options to v in their order. A nil option changes nothing.
func Apply[T any, O ~func(*T)](v *T, opts []O) {
	for _, o := range opts {
		if o != nil {
			o(v)
		}
	}
}
