package envoyconf

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// freeMap reads a map of the values that an answer can hold: text, numbers, booleans,
// null, lists and maps.
func (f *file) freeMap(n *yaml.Node) map[string]any {
	f.countAll(n, 0)
	var raw any
	if err := n.Decode(&raw); err != nil {
		f.fail(n, "", "error parsing metadata: %v", err)
	}
	if raw == nil {
		return nil
	}
	free, ok := f.plain(n, raw).(map[string]any)
	if !ok {
		f.fail(n, "", "metadata must be a mapping, not %s", kindOf(n))
	}
	return free
}

// countAll counts all nodes below n, with their text.
func (f *file) countAll(n *yaml.Node, depth int) {
	n = f.target(n)
	f.checkDepth(n, depth)
	f.take(n, len(n.Value))
	for _, each := range n.Content {
		f.countAll(each, depth+1)
	}
}

// plain converts a YAML value of the node to a JSON value. Keys that are not text become
// text, as in the reference.
func (f *file) plain(n *yaml.Node, v any) any {
	switch v := v.(type) {
	case nil, bool, string, float64:
		return v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case []any:
		for i, each := range v {
			v[i] = f.plain(n, each)
		}
		return v
	case map[string]any:
		for key, each := range v {
			v[key] = f.plain(n, each)
		}
		return v
	case map[any]any:
		m := make(map[string]any, len(v))
		for key, each := range v {
			m[fmt.Sprint(key)] = f.plain(n, each)
		}
		return m
	}
	f.fail(n, "put it in quotes", "error parsing metadata: %v is neither text, a number, a boolean, a list nor a map", v)
	return nil
}
