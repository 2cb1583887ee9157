package envoyconf

import (
	"strconv"

	"github.com/weirlimit/weir/internal/yamlnode"
)

// freeMap reads a map of the values that an answer can hold: text, numbers, booleans,
// null, lists and maps.
func (f *file) freeMap(n *yamlnode.Node) map[string]any {
	if n.Kind != yamlnode.Map && !n.Null() {
		f.fail(n, "write key: value", "metadata must be a mapping, not %s", kindOf(n))
	}
	free, _ := f.plain(n).(map[string]any)
	return free
}

// plain converts a node to a JSON value.
func (f *file) plain(n *yamlnode.Node) any {
	f.take(n, nodeBytes+len(n.Text))
	switch n.Type() {
	case "nothing":
		return nil
	case "text":
		return n.Text
	case "boolean":
		return n.Text[0]|0x20 == 't'
	case "integer", "number":
		if v, err := strconv.ParseFloat(n.Text, 64); err == nil {
			return v
		}
	case "list":
		list := []any{}
		for each := range n.Items() {
			list = append(list, f.plain(each))
		}
		return list
	case "map":
		m := map[string]any{}
		for key, each := range n.Pairs() {
			m[key.Text] = f.plain(each)
		}
		return m
	}
	f.fail(n, "put it in quotes", "metadata: %s is neither text, a number, a boolean, a list nor a map", kindOf(n))
	return nil
}
