package engine

// Key is a tuple of dimension values, such as (teacher="42"): 0 to 16 values of at most 1,024
// bytes each. Values are opaque bytes: two different tuples never share a history (R14). The
// zero Key has no values.
type Key struct {
	// Two values stand apart, so that most keys refer to no slice, which K would have to
	// allocate. An array of four costs 20 ns a call (BenchmarkAllow).
	first, second string
	rest          []string
	n             int
}

// K makes a Key of values, in the order in which the policy's dimensions first appear in
// Limits[].By. It allocates only for more than two values. [Compiled.Key] makes a Key of
// named values.
func K(values ...string) Key {
	k := Key{n: len(values)}
	if k.n > 0 {
		k.first = values[0]
	}
	if k.n > 1 {
		k.second = values[1]
	}
	if k.n > 2 {
		k.rest = append(k.rest, values[2:]...)
	}
	return k
}

// Len returns the number of values.
func (k *Key) Len() int { return k.n }

// Value returns the i-th value, 0 … Len()-1.
func (k *Key) Value(i int) string {
	switch i {
	case 0:
		return k.first
	case 1:
		return k.second
	}
	return k.rest[i-2]
}

// Append adds a value behind the others. Do not append to two copies of one key: they can
// share memory.
func (k *Key) Append(value string) {
	switch k.n {
	case 0:
		k.first = value
	case 1:
		k.second = value
	default:
		k.rest = append(k.rest, value)
	}
	k.n++
}
