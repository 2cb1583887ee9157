package weir

// Key is a tuple of dimension values, such as (teacher="42"). Values are opaque bytes:
// two different tuples never share a history (R14).
type Key struct {
	n     int
	first [4]string
	more  []string // values beyond the fourth
}

// K makes a Key of values, in the order in which the policy's dimensions first appear in
// Limits[].By. It allocates only for more than four values. [Plan.Key] makes a Key of
// named values.
func K(values ...string) Key {
	k := Key{n: len(values)}
	switch len(values) {
	case 0:
	case 1:
		k.first[0] = values[0] // at a third of the cost of copy
	default:
		copy(k.first[:], values)
		if len(values) > len(k.first) {
			k.more = append([]string(nil), values[len(k.first):]...)
		}
	}
	return k
}

// Len returns the number of values.
func (k Key) Len() int { return k.n }

// Value returns the i-th value, 0 … Len()-1.
func (k Key) Value(i int) string { return k.value(i) }

// value is Value without a copy of the key, for the memory engine.
func (k *Key) value(i int) string {
	if i < len(k.first) {
		return k.first[i]
	}
	return k.more[i-len(k.first)]
}

// push appends a value.
func (k *Key) push(v string) {
	if k.n < len(k.first) {
		k.first[k.n] = v
	} else {
		k.more = append(k.more, v)
	}
	k.n++
}
