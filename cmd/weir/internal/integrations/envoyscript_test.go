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

// keyScriptCases calls Envoy's script with the fields of a request, through the
// functions that Envoy provides.
const keyScriptCases = `
local function status(lines)
  local answered
  local headers = {}
  function headers:get(name) -- several lines are joined by commas
    return #lines > 0 and table.concat(lines, ",") or nil
  end
  function headers:getNumValues(name) return #lines end
  envoy_on_request({
    headers = function() return headers end,
    respond = function(self, fields, body) answered = fields[":status"] end,
  })
  return answered
end
local function want(got, status, case)
  assert(got == status, case .. ": " .. tostring(got))
end
want(status{"ann"}, nil, "one line")
want(status{"ann, bob"}, nil, "a list in one line")
want(status{("x"):rep(1024)}, nil, "1024 bytes")
want(status{}, "400", "no line")
want(status{""}, "400", "an empty line")
want(status{"ann", "bob"}, "400", "two lines")
want(status{"ann", ""}, "400", "an empty second line")
want(status{("x"):rep(1025)}, "400", "1025 bytes")
want(status{"a\xffb"}, "400", "no UTF-8")
want(status{"a\1b"}, "400", "a control character")
`

// TestEnvoyKeyScript runs the script of Envoy's snippet in the Lua of HAProxy, because
// Envoy is not installed.
func TestEnvoyKeyScript(t *testing.T) {
	files := must.Get(Render("envoy", Options{Header: "X-User"}))(t)
	var root yaml.Node
	must.Do(t, yaml.Unmarshal([]byte(files[0].Text), &root))
	dir := t.TempDir()
	script := inlineString(&root)
	config := "global\n    lua-load " + filepath.Join(dir, "key.lua") + "\nfrontend f\n    bind 127.0.0.1:1\n    mode http\n    timeout client 1s\n"
	for name, text := range map[string]string{"key.lua": script + keyScriptCases, "haproxy.cfg": config} {
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
