package conformance

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// TestWrongEngines: the kit finds every fault in the expected layers, and its report quotes
// a rule.
func TestWrongEngines(t *testing.T) {
	for _, wrong := range wrongEngines {
		t.Run(wrong.name, func(t *testing.T) {
			t.Parallel()
			newEngine := func() engine.Engine {
				w := wrong.fault
				w.Engine = spec.New()
				return &w
			}
			for _, layer := range strings.Split(wrong.layers, "") {
				report := layerReport(t, layer, newEngine)
				if report == "" {
					t.Errorf("layer %s did not see it", layer)
				} else if !quotesRule.MatchString(report) {
					t.Errorf("layer %s quotes no rule: %s", layer, report)
				} else if layer == "d" {
					wantPasteable(t, report, newEngine())
				}
			}
		})
	}
}

var quotesRule = regexp.MustCompile(`\n *R\d+: `)

// layerReport returns one layer's report about the engine, or "".
func layerReport(t *testing.T, layer string, newEngine func() engine.Engine) (report string) {
	t.Helper()
	switch layer {
	case "v":
		return vectorReport(t, newEngine)
	case "d":
		return (&differential{c: DefaultConfig(nil), newEngine: newEngine, shards: 1}).run(20_000)
	case "i":
		return instants(newEngine(), Config{})
	case "o":
		return once(newEngine(), Config{Goroutines: 8, Seed: 1})
	case "l":
		return live(newEngine(), Config{Hammers: 4, Seed: 1})
	}
	_, report = hammer(newEngine(), Config{Hammers: 40, Goroutines: 8, Seed: 1})
	return report
}

func vectorReport(t *testing.T, newEngine func() engine.Engine) string {
	t.Helper()
	for _, v := range allVectors(t, vectorFiles) {
		if m, err := v.run(newEngine()); err != nil {
			t.Fatal(err)
		} else if m != nil {
			return m.String()
		}
	}
	return ""
}

// wantPasteable checks that the report ends in a short vector that the
// specification passes and the engine does not.
func wantPasteable(t *testing.T, report string, e engine.Engine) {
	t.Helper()
	_, text, _ := strings.Cut(report, "\n\n")
	vectors, err := parseVectors("report", text)
	if err != nil || len(vectors) != 1 {
		t.Errorf("cannot paste the vector: %v\n%s", err, report)
		return
	}
	v := vectors[0]
	if m, err := v.run(spec.New()); err != nil || m != nil {
		t.Errorf("the specification fails the vector: %v %v\n%s", err, m, report)
	}
	if m, err := v.run(e); err != nil || m == nil {
		t.Errorf("the engine passes the vector: %v\n%s", err, report)
	}
	if asked := len(slices.DeleteFunc(v.steps, func(s step) bool { return !s.callsEngine() })); asked > 6 {
		t.Errorf("the vector is not short: %d steps\n%s", asked, report)
	}
}
