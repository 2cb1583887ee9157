package deploy

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/program"
)

// unit reads a systemd unit: values by section and name, in order.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open("weir.service")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	values, section := map[string][]string{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
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
	u := unit(t)
	args := strings.Fields(u["[Service]ExecStart"][0])
	if args[0] != "/usr/local/bin/weir" || args[len(args)-1] != "$WEIR_FLAGS" {
		t.Fatalf("ExecStart: %q", args)
	}
	policies, err := os.ReadFile("../examples/policies/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	start := func() *weir {
		return startWeir(t, args[1:len(args)-1], map[string]string{"/etc/weir/weir.yaml": string(policies)})
	}
	w := start()
	for _, path := range []string{"/livez", "/readyz", "/v1/policies"} {
		if status, body := w.get(w.main, path, nil); status != 200 {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
	wantKept(t, w, start, "/gate/search?ip=192.0.2.1", nil)
	for name, want := range map[string]string{
		"DynamicUser": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "ProtectSystem": "strict", "ProtectHome": "yes",
		"PrivateTmp": "yes", "PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes", "SystemCallArchitectures": "native",
		"StateDirectory": "weir", "StateDirectoryMode": "0700",
		"IPAddressDeny": "any", "KillSignal": "SIGTERM", "ExecReload": "/bin/kill -HUP $MAINPID",
	} {
		if got := u["[Service]"+name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestUnitBoundsMemory: the kernel's bound lies above the collector's, and both above
// the bound on histories that the unit recommends.
func TestUnitBoundsMemory(t *testing.T) {
	u := unit(t)
	text, err := os.ReadFile("weir.service")
	if err != nil {
		t.Fatal(err)
	}
	histories := regexp.MustCompile(`--max-memory (\w+)`).FindSubmatch(text)
	if len(u["[Service]MemoryMax"]) != 1 || len(u["[Service]Environment"]) != 1 || histories == nil {
		t.Fatalf("MemoryMax %q, Environment %q, --max-memory %q; want one of each", u["[Service]MemoryMax"], u["[Service]Environment"], histories)
	}
	kernel := bytesOf(t, u["[Service]MemoryMax"][0])
	collector := bytesOf(t, strings.TrimPrefix(u["[Service]Environment"][0], "GOMEMLIMIT="))
	recommended := bytesOf(t, string(histories[1]))
	if !(recommended < collector && collector < kernel) {
		t.Errorf("--max-memory %d, GOMEMLIMIT %d, MemoryMax %d; want them in ascending order", recommended, collector, kernel)
	}
}

// perConnection is the memory that docs/service.md allows for each connection.
const perConnection = 128 << 10

// TestUnitHoldsItsConnections: histories and connections fit in the collector's bound.
func TestUnitHoldsItsConnections(t *testing.T) {
	u := unit(t)
	text, err := os.ReadFile("weir.service")
	if err != nil {
		t.Fatal(err)
	}
	histories := regexp.MustCompile(`--max-memory (\w+)`).FindSubmatch(text)
	conns := regexp.MustCompile(`--max-connections (\d+)`).FindStringSubmatch(u["[Service]ExecStart"][0])
	if histories == nil || conns == nil {
		t.Fatalf("--max-memory %q, --max-connections %q; want both", histories, conns)
	}
	n, err := strconv.ParseInt(conns[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if need, most := bytesOf(t, string(histories[1]))+n*perConnection, bytesOf(t, strings.TrimPrefix(u["[Service]Environment"][0], "GOMEMLIMIT=")); need > most {
		t.Errorf("histories and %d connections need %d bytes, GOMEMLIMIT is %d", n, need, most)
	}
}

// bytesOf reads a size such as 900MiB or, as systemd writes it, 1G.
func bytesOf(t *testing.T, size string) int64 {
	t.Helper()
	digits := strings.TrimRight(size, "KMGiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]int{"K": 10, "M": 20, "G": 30}[strings.TrimSuffix(size[len(digits):], "iB")]
	if err != nil || !ok {
		t.Fatalf("%q is not a size: %v", size, err)
	}
	return n << shift
}

// dockerfile returns the instructions, with continued lines put together.
func dockerfile(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// TestImage starts weir like the image, and checks the Dockerfile. It does not build the
// image.
func TestImage(t *testing.T) {
	var from, entry, command, health []string
	user := ""
	for _, line := range dockerfile(t) {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "FROM":
			from, user = append(from, rest), ""
		case "USER":
			user = rest
		case "HEALTHCHECK":
			_, list, _ := strings.Cut(rest, " CMD ")
			if err := json.Unmarshal([]byte(list), &health); err != nil {
				t.Errorf("%s does without a shell only as a list: %v", line, err)
			}
		case "ENTRYPOINT", "CMD":
			to := &entry
			if word == "CMD" {
				to = &command
			}
			if err := json.Unmarshal([]byte(rest), to); err != nil {
				t.Errorf("%s is not a list: %v", line, err)
			}
		}
	}
	if len(from) != 2 || from[1] != "scratch" || user != "65532:65532" || !slices.Equal(entry, []string{"/weir"}) {
		t.Errorf("stages %q, user %q, entry point %q; want a second stage from scratch, a numeric user, /weir", from, user, entry)
	}
	goMod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if image := strings.Fields(from[0])[0]; !regexp.MustCompile(`^golang:[\w.-]+(@sha256:[0-9a-f]{64})?$`).MatchString(image) {
		t.Errorf("the image is built with %s, want golang:TAG, or golang:TAG@sha256:… as make pin-images writes it", image)
	}
	if _, version, _ := strings.Cut(string(goMod), "\ngo "); !strings.HasPrefix(from[0], "golang:"+version[:strings.LastIndexByte(strings.Fields(version)[0], '.')]) {
		t.Errorf("the image is built with %s, go.mod wants %s", from[0], strings.Fields(version)[0])
	}
	w := startWeir(t, command, map[string]string{
		"/etc/weir/weir.yaml": "version: 1\npolicies: {search: {limit: 5 per minute per ip}}\n", "/run/secrets/weir-token": "the-token-of-the-callers"})
	if status, _ := w.get(w.main, "/v1/policies", nil); status != 401 {
		t.Errorf("the image serves strangers: status %d", status)
	}
	if status, _ := w.get(w.admin, "/metrics", nil); status != 200 {
		t.Errorf("/metrics on the container's loopback: status %d", status)
	}
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
