package envoyconf

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// freeMap reads a map of the values that an answer can hold: text, numbers, booleans,
// null, lists and maps.
func (d *descriptor) freeMap(n *yaml.Node) (map[string]any, error) {
	if err := d.countAll(n, 0); err != nil {
		return nil, err
	}
	var raw any
	if err := n.Decode(&raw); err != nil {
		return nil, d.fail(n, "", "error parsing metadata: %v", err)
	}
	if raw == nil {
		return nil, nil
	}
	value, err := plain(raw, 0)
	if err != nil {
		return nil, d.fail(n, "put it in quotes", "error parsing metadata: %v", err)
	}
	free, ok := value.(map[string]any)
	if !ok {
		return nil, d.fail(n, "", "metadata must be a mapping, not %s", kindOf(n))
	}
	return free, nil
}

// plain converts a YAML value to a JSON value.
func plain(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, string, float64:
		return v, nil
	case int:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case uint64:
		return float64(v), nil
	case []any:
		return plainList(v, depth)
	case map[string]any:
		m := make(map[any]any, len(v))
		for key, each := range v {
			m[key] = each
		}
		return plainMap(m, depth)
	case map[any]any:
		return plainMap(v, depth)
	}
	return nil, fmt.Errorf("%v is neither text, a number, a boolean, a list nor a map", v)
}

func plainList(v []any, depth int) (any, error) {
	list := make([]any, len(v))
	for i, each := range v {
		var err error
		if list[i], err = plain(each, depth+1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// plainMap converts keys that are not text to text, as the reference does.
func plainMap(v map[any]any, depth int) (any, error) {
	m := make(map[string]any, len(v))
	for key, each := range v {
		value, err := plain(each, depth+1)
		if err != nil {
			return nil, err
		}
		m[fmt.Sprint(key)] = value
	}
	return m, nil
}
