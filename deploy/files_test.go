package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unit reads a systemd unit: values by section and name, in order.
func unit(t *testing.T, name string) map[string][]string {
	t.Helper()
	values, section := map[string][]string{}, ""
	for line := range strings.Lines(read(t, name)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			section = line
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			t.Fatalf("not a line of a unit: %q", line)
		}
		values[section+name] = append(values[section+name], value)
	}
	return values
}

// TestUnit starts weir like the unit, and checks its confinement.
// (systemd-analyze verify and security say more where systemd is.)
func TestUnit(t *testing.T) {
	u := unit(t, "weir.service")
	args := strings.Fields(strings.Replace(u["[Service]ExecStart"][0], "$WEIR_STORE", unitStore(t, u), 1))
	if args[0] != "/usr/local/bin/weir" || args[len(args)-1] != "$WEIR_FLAGS" {
		t.Fatalf("ExecStart: %q", args)
	}
	start := func() *weir {
		return startWeir(t, args[1:len(args)-1], map[string]string{"/etc/weir/weir.yaml": read(t, "../examples/policies/web.yaml")})
	}
	w := start()
	w.gets(w.main, 200, nil, "/livez", "/readyz", "/v1/policies")
	wantKept(t, w, start, "/gate/search?ip=192.0.2.1", nil)
	for name, want := range map[string]string{
		"DynamicUser": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes",
		"PrivateTmp": "yes", "PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes", "SystemCallArchitectures": "native",
		"StateDirectory": "weir", "StateDirectoryMode": "0700", "Type": "notify",
		"IPAddressDeny": "any", "KillSignal": "SIGTERM", "ExecReload": "/bin/kill -HUP $MAINPID",
	} {
		if got := u["[Service]"+name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestSocketUnit: the socket has the address of the unit's listener, which is that without a flag, and
// its bounds.
func TestSocketUnit(t *testing.T) {
	u, service := unit(t, "weir.socket"), unit(t, "weir.service")
	out, err := exec.Command(program.Path(t), "config", "print").Output()
	must.Do(t, err)
	listen := only(t, string(out), `^ *listen: "(\S+)"`)
	if got := u["[Socket]ListenStream"]; !slices.Equal(got, []string{listen}) {
		t.Errorf("ListenStream is %q, want %s", got, listen)
	}
	for _, name := range []string{"IPAddressDeny", "IPAddressAllow"} {
		if got, want := u["[Socket]"+name], service["[Service]"+name]; !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q as in weir.service", name, got, want)
		}
	}
}

// unitStore returns the flags of the store, which /etc/default/weir can replace: Redis has no
// --max-memory.
func unitStore(t *testing.T, unit map[string][]string) string {
	t.Helper()
	return only(t, strings.Join(unit["[Service]Environment"], "\n"), `^"WEIR_STORE=(.*)"$`)
}

// perConnection is the memory that docs/service.md allows for each connection.
const perConnection = 128 << 10

// TestUnitBoundsMemory: the kernel's bound lies above the collector's. The histories, which the
// unit bounds, fit in that with all connections.
func TestUnitBoundsMemory(t *testing.T) {
	u, text := unit(t, "weir.service"), read(t, "weir.service")
	kernel, collector, histories := bytesOf(t, only(t, text, `^MemoryMax=(\w+)`)), bytesOf(t, only(t, text, `^Environment=GOMEMLIMIT=(\w+)`)), bytesOf(t, only(t, unitStore(t, u), `--max-memory=(\w+)`))
	conns := only(t, u["[Service]ExecStart"][0], `--max-connections (\d+)`)
	n, err := strconv.ParseInt(conns, 10, 64)
	if need := histories + n*perConnection; err != nil || need > collector || collector >= kernel {
		t.Errorf("histories and %s connections need %d bytes, GOMEMLIMIT is %d, MemoryMax %d; want them in ascending order, %v", conns, need, collector, kernel, err)
	}
}

// bytesOf reads a size such as 900MiB or, as systemd writes it, 1G.
func bytesOf(t *testing.T, size string) int64 {
	t.Helper()
	digits := strings.TrimRight(size, "KMGiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	shifts := map[string]int{"K": 10, "M": 20, "G": 30}
	shift, ok := shifts[strings.TrimSuffix(size[len(digits):], "iB")]
	if err != nil || !ok {
		t.Fatalf("%q is not a size: %v", size, err)
	}
	return n << shift
}

// only returns the first group of the only match of a pattern in lines of a text.
func only(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(text, -1)
	if len(m) != 1 {
		t.Fatalf("%q for %s, want one, in\n%s", m, pattern, text)
	}
	return m[0][1]
}

// TestImage starts weir like the image, and checks the Dockerfile. It does not build the
// image.
func TestImage(t *testing.T) {
	build, image, _ := strings.Cut(strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", ""), "\nFROM scratch\n")
	list := func(word string) (words []string) { // without a shell only a list
		must.Do(t, json.Unmarshal([]byte(only(t, image, "^"+word+" (.*)$")), &words))
		return words
	}
	entry, command, health := list("ENTRYPOINT"), list("CMD"), list("HEALTHCHECK .* CMD")
	if user := only(t, image, "^USER (.*)$"); user != "65532:65532" || !slices.Equal(entry, []string{"/weir"}) || strings.Contains(image, "\nFROM ") {
		t.Errorf("user %q, entry point %q; want a last stage from scratch with a numeric user and /weir", user, entry)
	}
	// make pin-images adds the digest.
	builder := only(t, only(t, build, `^FROM (.*)$`), `^golang:([\w.-]+)(?:@sha256:[0-9a-f]{64})? AS build$`)
	if version := only(t, read(t, "../go.mod"), `^go (\d+\.\d+)`); !strings.HasPrefix(builder, version) {
		t.Errorf("the image is built with %s, go.mod wants %s", builder, version)
	}
	w := startWeir(t, command, map[string]string{
		"/etc/weir/weir.yaml": "version: 1\npolicies: {search: {limit: 5 per minute per ip}}\n", "/run/secrets/weir-token": "the-token-of-the-callers"})
	w.gets(w.main, 401, nil, "/v1/policies") // of strangers
	w.gets(w.admin, 200, nil, "/metrics")    // on the container's loopback
	// The image has only weir. The admin listener answers plain HTTP on 127.0.0.1:7072,
	// also if --listen has TLS.
	if len(health) != 4 || health[0] != "/weir" || health[3] != "http://127.0.0.1:7072" {
		t.Fatalf("HEALTHCHECK %q", health)
	}
	for address, good := range map[string]bool{w.admin: true, "127.0.0.1:1": false} {
		out, err := exec.Command(program.Path(t), health[1], health[2], "http://"+address).CombinedOutput()
		if (err == nil) != good {
			t.Errorf("the health check of %s: %v, %s", address, err, out)
		}
	}
}
