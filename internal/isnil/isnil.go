// Package isnil finds nil engines and connections in their interfaces, for an error in place of
// a nil dereference at the first call.
package isnil

import "reflect"

// Is reports whether v is nil, or an interface around a nil pointer.
func Is(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
