package engine

// Key is a tuple of dimension values, such as (teacher="42"). Values are opaque bytes:
// two different tuples never share a history (R14).
type Key struct {
	// The first value stands apart, so that a key of one value refers to no slice. An array
	// of four costs 20 ns a call (BenchmarkAllow).
	first string
	rest  []string
	n     int
}

// K makes a Key of values, in the order in which the policy's dimensions first appear in
// Limits[].By. It keeps the values behind the first where they are, so do not change a
// slice that you pass. [Compiled.Key] makes a Key of named values.
func K(values ...string) Key {
	if len(values) == 0 {
		return Key{}
	}
	return Key{first: values[0], rest: values[1:], n: len(values)}
}

// Len returns the number of values.
func (k *Key) Len() int { return k.n }

// Value returns the i-th value, 0 … Len()-1.
func (k *Key) Value(i int) string {
	if i == 0 {
		return k.first
	}
	return k.rest[i-1]
}

// Clone returns a key that shares no memory with k, except the bytes of the values.
func (k *Key) Clone() Key {
	return Key{first: k.first, rest: append([]string(nil), k.rest...), n: k.n}
}

// Append adds a value.
func (k *Key) Append(value string) {
	if k.n == 0 {
		k.first = value
	} else {
		k.rest = append(k.rest, value)
	}
	k.n++
}
