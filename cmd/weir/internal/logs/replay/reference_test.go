package replay

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/jsontest"
)

// reference reads a line with encoding/json, as the package comment defines it. Tests
// compare the hand-written parser with it.
func reference(b []byte) (line Line, err error) {
	defer jsontest.Recover(&err)
	line.N = 1
	seen := map[string]bool{}
	for _, m := range jsontest.Members(jsontest.Must(b)) {
		seen[m.Name] = true
		switch m.Name {
		case "at_us":
			line.At = jsontest.Number(m.Value, weir.MaxInstant)
		case "n":
			line.N = jsontest.Number(m.Value, weir.MaxUnits)
		case "last_us":
			line.Last = jsontest.Number(m.Value, weir.MaxInstant)
		case "granted_at_us":
			line.GrantedAt = jsontest.Number(m.Value, weir.MaxInstant)
		case "policy":
			line.Policy = jsontest.Text(m.Value)
		case "id":
			line.ID = jsontest.Text(m.Value)
			jsontest.Require(0 < len(line.ID) && len(line.ID) <= 128, "id")
		case "limit":
			line.Limit = jsontest.Text(m.Value)
		case "op":
			op, ok := map[string]weir.Op{"check": engine.Attempt, "peek": engine.Peek, "record": engine.Record, "refund": engine.Refund,
				"reset": engine.Reset, "count": engine.Count}[jsontest.Text(m.Value)]
			jsontest.Require(ok, "op")
			line.Op = op
		case "key":
			for _, d := range jsontest.Members(m.Value) {
				line.Key = append(line.Key, enforce.Pair{Name: d.Name, Value: jsontest.Text(d.Value)})
			}
			jsontest.Require(len(line.Key) <= 16, "dimensions")
		default:
			jsontest.Require(false, "unknown field")
		}
	}
	jsontest.Require(seen["at_us"] && seen["policy"], "missing")
	jsontest.Require(line.Op != engine.Refund || seen["granted_at_us"], "missing of refund")
	jsontest.Require(line.Op != engine.Count || seen["last_us"] && seen["limit"], "missing of count")
	return line, nil
}
