//go:build linux

package integrations

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestEnvoyKeyScript runs the script of Envoy's snippet, with testdata/keyscript.lua behind it, in
// the Lua of HAProxy, because Envoy is not installed.
func TestEnvoyKeyScript(t *testing.T) {
	files := must.Get(Render("envoy", Options{Header: "X-User"}))(t)
	var root yaml.Node
	must.Do(t, yaml.Unmarshal([]byte(files[0].Text), &root))
	dir := t.TempDir()
	script, cases := inlineString(&root), must.Get(os.ReadFile("testdata/keyscript.lua"))(t)
	config := "global\n    lua-load " + filepath.Join(dir, "key.lua") + "\nfrontend f\n    bind 127.0.0.1:1\n    mode http\n    timeout client 1s\n"
	for name, text := range map[string]string{"key.lua": script + "\n" + string(cases), "haproxy.cfg": config} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if out, err := exec.Command(needs.Program(t, "haproxy"), "-c", "-f", filepath.Join(dir, "haproxy.cfg")).CombinedOutput(); err != nil || script == "" {
		t.Errorf("%v\n%s\n%s", err, out, script)
	}
}

// inlineString returns the value of the first inline_string.
func inlineString(n *yaml.Node) string {
	for i, child := range n.Content {
		if child.Value == "inline_string" {
			return n.Content[i+1].Value
		}
		if found := inlineString(child); found != "" {
			return found
		}
	}
	return ""
}
