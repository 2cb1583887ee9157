// Package prometheus_test checks that the alert rules and the dashboard use existing
// metrics. They are in docs/metrics.md, which another test compares with /metrics.
package prometheus_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

const runbook = "../../../../../docs/runbook.md"

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(needs.Program(t, "promtool"), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRules(t *testing.T) {
	promtool(t, "check", "rules", "weir.rules.yml")
	promtool(t, "test", "rules", "weir.rules.test.yml")
}

// TestEveryRuleIsTested: a rule is seen to fire and to keep quiet.
func TestEveryRuleIsTested(t *testing.T) {
	tests := read(t, "weir.rules.test.yml")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, "weir.rules.yml"), -1) {
		quiet, fires := "alertname: "+m[1]+"}", "alertname: "+m[1]+"\n        exp_alerts:"
		if !strings.Contains(tests, quiet) || !strings.Contains(tests, fires) {
			t.Errorf("%s is not tested both ways", m[1])
		}
	}
}

// TestEveryAlertIsInTheRunbook: each alert has a heading, which its runbook_url names, and a row with
// its severity. The page has no other alert.
func TestEveryAlertIsInTheRunbook(t *testing.T) {
	const start = "https://github.com/weirlimit/weir/blob/main/docs/runbook.md#"
	page, found := read(t, runbook), 0
	for _, rule := range strings.Split(read(t, "weir.rules.yml"), "- alert: ")[1:] {
		found++
		name, _, _ := strings.Cut(rule, "\n")
		anchor := strings.ToLower(name)
		severity := regexp.MustCompile(`severity: (\w+)`).FindStringSubmatch(rule)[1]
		for _, want := range []string{"\n### " + name + "\n", fmt.Sprintf("| [%s](#%s) | %s |", name, anchor, severity)} {
			if !strings.Contains(page, want) {
				t.Errorf("docs/runbook.md has no %q", want)
			}
		}
		if !strings.Contains(rule, fmt.Sprintf("runbook_url: %q", start+anchor)) {
			t.Errorf("%s has no runbook_url to %s", name, start+anchor)
		}
	}
	if n := strings.Count(page, "\n### Weir"); n != found || found == 0 {
		t.Errorf("docs/runbook.md has %d alerts, and there are %d", n, found)
	}
}

// TestRunbookQueries: Prometheus understands the queries of the runbook.
func TestRunbookQueries(t *testing.T) {
	queries := markdown.Texts(read(t, runbook), "promql")
	if len(queries) == 0 {
		t.Fatal("docs/runbook.md has no query")
	}
	rules := "groups:\n- name: runbook\n  rules:\n"
	for i, query := range queries {
		rules += fmt.Sprintf("  - {record: query, labels: {query: \"%d\"}, expr: %q}\n", i, query)
	}
	file := t.TempDir() + "/queries.yml"
	must.Do(t, os.WriteFile(file, []byte(rules), 0o666))
	promtool(t, "check", "rules", file)
}

// The metrics of rules, panels and the runbook exist.
func TestMetricsExist(t *testing.T) {
	docs := read(t, "../../../../../docs/metrics.md")
	for _, file := range []string{"weir.rules.yml", "weir.rules.test.yml", "dashboard.json", runbook} {
		names := regexp.MustCompile(`\bweir_\w+`).FindAllString(read(t, file), -1)
		if len(names) == 0 {
			t.Errorf("%s asks for no metric", file)
		}
		for _, name := range names {
			row := "| `" + strings.TrimSuffix(name, "_bucket")
			if !strings.Contains(docs, row+"`") && !strings.Contains(docs, row+"{") {
				t.Errorf("%s asks for %s, which docs/metrics.md does not know", file, name)
			}
		}
	}
}

// TestDashboard: it is JSON, and Prometheus understands every expression in it.
func TestDashboard(t *testing.T) {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must.Do(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &d))
	rules := "groups:\n- name: panels\n  rules:\n"
	n := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			n++
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			rules += fmt.Sprintf("  - {record: panel, labels: {panel: %q}, expr: %q}\n", fmt.Sprint(p.Title, " ", n), expr)
		}
	}
	if n < 10 {
		t.Fatalf("%d expressions, want a dashboard", n)
	}
	file := t.TempDir() + "/panels.yml"
	must.Do(t, os.WriteFile(file, []byte(rules), 0o666))
	promtool(t, "check", "rules", file)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
