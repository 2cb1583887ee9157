//go:build dist

package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// The tools of the chart run at exactly these versions, and from their own modules.
const (
	helmModule        = "helm.sh/helm/v4/cmd/helm@v4.3.2"
	kubeconformModule = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
)

var rewrite = flag.Bool("rewrite", false, "write the files of deploy/helm/testdata anew")

const (
	testChart = "../" + chartDir
	chartData = "../deploy/helm/testdata"
)

// goTool builds a program of a module and returns its path.
func goTool(t *testing.T, module string) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command(goCommand, "install", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "GOBIN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	name, _, _ := strings.Cut(filepath.Base(module), "@")
	return filepath.Join(bin, name)
}

// TestDistChart renders the chart for each file of values, and compares that with the files which the
// tests of deploy read. kubeconform checks them against the schemas of Kubernetes.
func TestDistChart(t *testing.T) {
	helm := goTool(t, helmModule)
	kubeconform := goTool(t, kubeconformModule)
	all, err := filepath.Glob(chartData + "/values/*.yaml")
	must.Do(t, err)
	if len(all) < 4 {
		t.Fatalf("there are only the values %q", all)
	}
	for _, values := range all {
		name := filepath.Base(values)
		command(t, helm, "lint", "--strict", "--quiet", testChart, "--values", values)
		wantFile(t, filepath.Join(chartData, name), command(t, helm, "template", "weir", testChart, "--values", values))
		check := []string{"-strict", "-summary", "-schema-location", chartData + "/kinds.json"}
		t.Logf("%s: %s", name, command(t, kubeconform, append(check, filepath.Join(chartData, name))...))
	}
	wantFile(t, filepath.Join(chartData, "sources.sha256"), chartSources(t))

	broken := strings.Replace(string(readFile(t, chartData+"/redis.yaml")), "readOnlyRootFilesystem:", "readOnlyRootFileSystem:", 1)
	file := filepath.Join(t.TempDir(), "broken.yaml")
	must.Do(t, os.WriteFile(file, []byte(broken), 0o600))
	out, err := exec.Command(kubeconform, "-strict", "-schema-location", chartData+"/kinds.json", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "readOnlyRootFileSystem") {
		t.Errorf("kubeconform does not find a wrong name: %v\n%s", err, out)
	}
	t.Run("bad values", func(t *testing.T) { tryBadValues(t, helm) })
}

// wantFile compares a text with a file, or writes it there.
func wantFile(t *testing.T, file, text string) {
	t.Helper()
	if *rewrite {
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	} else if got := string(readFile(t, file)); got != text {
		t.Errorf("%s differs from what helm renders; rerun with -args -rewrite, and read the difference", file)
	}
}

// chartSources returns the checksums of the files that are rendered, as the tests of deploy compare
// them.
func chartSources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{testChart, chartData + "/values"} {
		must.Do(t, filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(readFile(t, file)), strings.TrimPrefix(file, "../deploy/"))
			}
			return err
		}))
	}
	return b.String()
}

// tryBadValues: a value of a wrong type or name gets one sentence, and no object is rendered.
func tryBadValues(t *testing.T, helm string) {
	for set, want := range map[string]string{
		"redis.replicas=many":           "at '/redis/replicas': got string, want integer",
		"redis.replicas=0":              "at '/redis/replicas': minimum: got 0, want 1",
		"grpc=maybe":                    "at '/grpc': got string, want boolean",
		"store=postgres":                "at '/store': value must be one of 'memory', 'disk', 'redis'",
		"linger=10":                     "at '/linger': got number, want string",
		"maxMemory=128M":                "at '/maxMemory': '128M' does not match pattern",
		"service.port=70000":            "at '/service/port': maximum: got 70,000, want 65,535",
		"replicas=3":                    "additional properties 'replicas' not allowed",
		"networkPolicy=no":              "at '/networkPolicy': got string, want object",
		"extraArgs[0]=log-format":       "at '/extraArgs/0': 'log-format' does not match pattern",
		"redis.url=http://redis:6379":   "at '/redis/url': 'http://redis:6379' does not match pattern",
		"podDisruptionBudget.enabled=1": "at '/podDisruptionBudget/enabled': got number, want boolean",
		"redis.url=null":                "at '/redis': missing property 'url'", // null takes a value away
		"image.repository=null":         "at '/image': missing property 'repository'",
		"networkPolicy=null":            "at '': missing property 'networkPolicy'",
		"networkPolicy.enabled=null":    "at '/networkPolicy': missing property 'enabled'",
		"secretKeys.token=null":         "at '/secretKeys': missing property 'token'",
		"imagePullSecrets[0]=registry":  "at '/imagePullSecrets/0': got string, want object",
		"existingSecret=":               "existingSecret names no secret with the tokens; make one as values.yaml shows",
	} {
		cmd := exec.Command(helm, "template", "weir", testChart, "--set", "existingSecret=weir", "--set", set)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if err == nil || stdout.Len() > 0 || strings.Count(stderr.String(), want) != 1 || strings.Count(stderr.String(), "- at '") > 1 {
			t.Errorf("--set %s: %v, it printed %q and\n%s\nwant one sentence with %q", set, err, stdout.String(), stderr.String(), want)
		}
	}
}

// tryChart lets helm read the packed chart and print the notes.
func tryChart(t *testing.T, dist string) {
	helm := goTool(t, helmModule)
	file := filepath.Join(dist, "weir-0.1.0.tgz")
	if out := command(t, helm, "show", "chart", file); !strings.Contains(out, "\nversion: 0.1.0") || !strings.Contains(out, "appVersion: 0.1.0\n") {
		t.Errorf("the chart is\n%s", out)
	}
	out := command(t, helm, "install", "weir", file, "--dry-run=client", "--set", "existingSecret=weir")
	if _, notes, found := strings.Cut(out, "\nNOTES:\n"); !found || !strings.Contains(notes, "The first denial") || !strings.Contains(notes, "the page of one pod, http://127.0.0.1:7072/, asks") || !strings.Contains(out, `image: "weir:0.1.0"`) {
		t.Errorf("helm install prints\n%s", out)
	}
}
