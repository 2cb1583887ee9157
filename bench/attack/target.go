package main

import (
	"fmt"
	"os"
	"strings"
)

// target is the server under attack: its addresses, files and secrets. The process of
// the attackers gets it as JSON.
type target struct {
	Dir              string
	HTTP, GRPC, RESP string

	Honest string // the token of the honest callers, valid all the time
	Gate   string // the secret of gates
}

func newTarget(dir string) *target {
	return &target{Dir: dir, Honest: "token-of-the-honest-callers", Gate: "secret-of-the-honest-gates"}
}

// audited is the policy of the honest callers. Its limits are those of the audit.
const audited = "audited"

// goodPolicies is the policy file. The attackers replace it by hostile ones and restore it.
// They have no key of the audited policy.
var goodPolicies = fmt.Sprintf(`version: 1
policies:
  %s:
    limits:
      second: %d per 1s per user
      minute: %d per 1m per user
  spare: {limit: 2 per 10s per user}
`, audited, limits[0].Max, limits[1].Max)

const goodEnvoy = "domain: spare-domain\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 3}}\n"

// writeFiles writes everything that the server reads when it starts.
func (t *target) writeFiles() error {
	for name, text := range map[string]string{
		"weir.yaml": goodPolicies, "envoy.yaml": goodEnvoy, "token": t.tokens(0), "gate-secret": t.Gate + "\n",
	} {
		if err := t.replace(name, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// tokens is the token file of one generation: the honest token and one that the
// attackers use until the next rotation.
func (t *target) tokens(generation int64) string {
	return t.Honest + "\n" + rotating(generation) + "\n"
}

// rotating is the second token of a generation.
func rotating(generation int64) string { return fmt.Sprintf("rotating-token-number-%d", generation) }

// replace writes a file as an editor does: new file, then rename.
func (t *target) replace(name string, text []byte) error {
	path := t.path(name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// maxConnections is less than the number that the attackers try to hold on each listener.
const maxConnections = 400

// flags configures every front, each with a secret.
func (t *target) flags() []string {
	return strings.Fields(fmt.Sprintf("--policies %s --envoy-config %s --token-file %s --gate-secret-file %s "+
		"--admin-listen 127.0.0.1:0 --grpc-listen 127.0.0.1:0 --resp-listen 127.0.0.1:0 --max-connections %d --max-memory 256MiB",
		t.path("weir.yaml"), t.path("envoy.yaml"), t.path("token"), t.path("gate-secret"), maxConnections))
}
