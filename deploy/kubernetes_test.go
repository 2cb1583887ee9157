package deploy

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/policy"
)

// manifest has the fields of every object; the rest is read by type.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name   string
		Labels map[string]string
	}
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// deployment is the part of a Deployment that the tests look at.
type deployment struct {
	Spec struct {
		Replicas int
		Selector selector
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int                   `yaml:"runAsUser"`
		FSGroup        int                   `yaml:"fsGroup"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []volume
}

type volume struct {
	Name   string
	Secret struct {
		SecretName  string `yaml:"secretName"`
		DefaultMode int    `yaml:"defaultMode"`
	}
}

type container struct {
	Args      []string
	Env       []struct{ Name, Value string }
	Resources struct{ Limits struct{ Memory string } }
	Ports     []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	VolumeMounts   []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// load reads the one object of a file.
func load(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestManifests checks that every file is listed and has its kind.
func TestManifests(t *testing.T) {
	var all struct{ Resources []string }
	load(t, "kustomization.yaml", &all)
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) != len(all.Resources)+1 {
		t.Errorf("kustomization.yaml lists %q, and there are %q, %v", all.Resources, files, err)
	}
	want := map[string]string{"Deployment": "apps/v1", "Service": "v1", "ConfigMap": "v1",
		"PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1"}
	for _, name := range all.Resources {
		var m manifest
		load(t, name, &m)
		if want[m.Kind] != m.APIVersion || m.Metadata.Name == "" || m.Metadata.Labels["app.kubernetes.io/name"] != "weir" {
			t.Errorf("%s: %+v", name, m)
		}
		delete(want, m.Kind)
	}
	if len(want) != 0 {
		t.Errorf("there is no %v", want)
	}
}

// TestManifestsAgree: all of them speak of the same pods and ports.
func TestManifestsAgree(t *testing.T) {
	var d deployment
	load(t, "deployment.yaml", &d)
	var service struct {
		Spec struct {
			Selector map[string]string
			Ports    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	load(t, "service.yaml", &service)
	var budget struct {
		Spec struct{ Selector selector }
	}
	load(t, "poddisruptionbudget.yaml", &budget)
	var network networkPolicy
	load(t, "networkpolicy.yaml", &network)
	labels := d.Spec.Template.Metadata.Labels
	for what, chosen := range map[string]map[string]string{
		"the Deployment": d.Spec.Selector.MatchLabels, "the Service": service.Spec.Selector,
		"the PodDisruptionBudget": budget.Spec.Selector.MatchLabels, "the NetworkPolicy": network.Spec.PodSelector.MatchLabels,
	} {
		if len(chosen) != 1 || labels["app.kubernetes.io/name"] != chosen["app.kubernetes.io/name"] {
			t.Errorf("%s chooses %v, the pods are %v", what, chosen, labels)
		}
	}
	ports := map[string]bool{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	if p := service.Spec.Ports; len(p) != 1 || p[0].TargetPort != "http" || !ports["http"] {
		t.Errorf("the Service leads to %v of %v; want decisions alone", p, ports)
	}
	if !slices.Equal(network.Spec.PolicyTypes, []string{"Ingress", "Egress"}) {
		t.Errorf("the NetworkPolicy is for %v", network.Spec.PolicyTypes)
	}
	for _, in := range network.Spec.Ingress {
		for _, p := range in.Ports {
			if !ports[p.Port] {
				t.Errorf("the NetworkPolicy opens %s, the pods have %v", p.Port, ports)
			}
		}
	}
}

// networkPolicy is the part of a NetworkPolicy that the tests look at.
type networkPolicy struct {
	Spec struct {
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct {
			From  []networkPeer
			Ports []networkPort
		}
		Egress []struct {
			To    []networkPeer
			Ports []networkPort
		}
	}
}

// networkPeer is a set of pods. A nil selector selects nothing by itself; an empty one
// selects everything.
type networkPeer struct {
	PodSelector       *selector `yaml:"podSelector"`
	NamespaceSelector *selector `yaml:"namespaceSelector"`
	IPBlock           any       `yaml:"ipBlock"`
}

type networkPort struct{ Port, Protocol string }

// labelled reports whether the peer selects pods or namespaces by at least one label.
func (p networkPeer) labelled() bool {
	return p.IPBlock == nil &&
		(p.PodSelector != nil && len(p.PodSelector.MatchLabels) > 0 || p.NamespaceSelector != nil && len(p.NamespaceSelector.MatchLabels) > 0)
}

// TestNetworkPolicyOpensNothingElse: callers reach the port of decisions, Prometheus
// that of operators, and weir reaches the store and the names; every peer has labels.
func TestNetworkPolicyOpensNothingElse(t *testing.T) {
	var n networkPolicy
	load(t, "networkpolicy.yaml", &n)
	var d deployment
	load(t, "deployment.yaml", &d)
	var store string
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		if url, ok := strings.CutPrefix(arg, "--store=redis://"); ok {
			store = url[strings.LastIndexByte(url, ':')+1:]
		}
	}
	var in, out []string
	for _, rule := range n.Spec.Ingress {
		checkPeers(t, "ingress", rule.From)
		for _, p := range rule.Ports {
			in = append(in, p.Port)
			_, callers := rule.From[0].PodSelector.label("weir-client")
			if callers != (p.Port == "http") {
				t.Errorf("the port %s is open to %+v", p.Port, rule.From)
			}
		}
	}
	for _, rule := range n.Spec.Egress {
		checkPeers(t, "egress", rule.To)
		for _, p := range rule.Ports {
			out = append(out, p.Port+p.Protocol)
		}
	}
	slices.Sort(in)
	slices.Sort(out)
	if !slices.Equal(in, []string{"admin", "http"}) {
		t.Errorf("ingress opens the ports %q, want admin and http", in)
	}
	if want := []string{"53TCP", "53UDP", store}; !slices.Equal(out, want) {
		t.Errorf("egress opens the ports %q, want %q: names and the store of the Deployment", out, want)
	}
}

// label returns the value of a label that the selector demands; s may be nil.
func (s *selector) label(name string) (value string, ok bool) {
	if s != nil {
		value, ok = s.MatchLabels[name]
	}
	return value, ok
}

// checkPeers fails for a rule that is open to everything.
func checkPeers(t *testing.T, direction string, peers []networkPeer) {
	t.Helper()
	if len(peers) == 0 {
		t.Fatalf("an %s rule names no peers, so it is for all", direction)
	}
	for _, p := range peers {
		if !p.labelled() {
			t.Errorf("an %s rule has a peer without labels: %+v", direction, p)
		}
	}
}

// TestPodIsConfined: the pod has no more rights than weir needs.
func TestPodIsConfined(t *testing.T) {
	var d deployment
	load(t, "deployment.yaml", &d)
	p := d.Spec.Template.Spec
	c := p.Containers[0].SecurityContext
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken ||
		!p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser == 0 || p.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
		c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || !c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("the pod is not confined: %+v, %+v", p.SecurityContext, c)
	}
	for _, v := range p.Volumes {
		if v.Secret.SecretName != "" && v.Secret.DefaultMode != 0o440 {
			t.Errorf("the secret's files have the mode %o, want 440", v.Secret.DefaultMode)
		}
	}
	for _, m := range p.Containers[0].VolumeMounts {
		if !m.ReadOnly || !slices.ContainsFunc(p.Volumes, func(v volume) bool { return v.Name == m.Name }) {
			t.Errorf("the mount %+v can be written, or has no volume", m)
		}
	}
	if got := d.Spec.Strategy.RollingUpdate; got.MaxUnavailable != 0 || !slices.Contains(p.Containers[0].Args, "--instances=3") || d.Spec.Replicas+got.MaxSurge != 3 {
		t.Errorf("%d replicas and %+v, with the arguments %q; want --instances to be the most that run at once", d.Spec.Replicas, got, p.Containers[0].Args)
	}
}

// TestPodHoldsItsConnections: the connections of both listeners fit in the collector's
// bound, and that in the pod's.
func TestPodHoldsItsConnections(t *testing.T) {
	var d deployment
	load(t, "deployment.yaml", &d)
	c := d.Spec.Template.Spec.Containers[0]
	const rest, admin = 48 << 20, 100 // rest is the program with its policies
	var conns, collector int64
	for _, arg := range c.Args {
		if n, ok := strings.CutPrefix(arg, "--max-connections="); ok {
			conns, _ = strconv.ParseInt(n, 10, 64)
		}
	}
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			collector = bytesOf(t, e.Value)
		}
	}
	pod := bytesOf(t, c.Resources.Limits.Memory+"B")
	if need := rest + (conns+admin)*perConnection; conns == 0 || need > collector || collector >= pod {
		t.Errorf("%d connections need %d bytes, GOMEMLIMIT is %d, the pod's limit %d; want them in ascending order", conns, need, collector, pod)
	}
}

// TestPolicies: the policies of the ConfigMap are policies.
func TestPolicies(t *testing.T) {
	var m struct{ Data map[string]string }
	load(t, "policies.yaml", &m)
	if f, err := policy.Parse("weir.yaml", []byte(m.Data["weir.yaml"])); err != nil || len(f.Policies) == 0 {
		t.Errorf("%v, %v", f, err)
	}
}

// podFiles are the files that a pod mounts.
func podFiles(policies string) map[string]string {
	return map[string]string{
		"/etc/weir/policies/weir.yaml":  policies,
		"/etc/weir/secrets/token":       "the-token-of-the-callers",
		"/etc/weir/secrets/gate-secret": "the-secret-of-the-gates",
		"/etc/weir/secrets/admin-token": "the-token-of-operators",

		"/etc/weir/secrets/reservation-secret": "the-secret-of-reservations",
	}
}

// TestDeploymentRuns starts weir with the arguments of the Deployment: its probes
// succeed and expose nothing, and requests without a token are rejected.
func TestDeploymentRuns(t *testing.T) {
	var d deployment
	load(t, "deployment.yaml", &d)
	var m struct{ Data map[string]string }
	load(t, "policies.yaml", &m)
	c := d.Spec.Template.Spec.Containers[0]
	w := startWeir(t, c.Args, podFiles(m.Data["weir.yaml"]))
	if !slices.Contains(c.Args, "--reservation-secret-file=/etc/weir/secrets/reservation-secret") {
		t.Errorf("%q: %d pods cannot settle reservations of each other", c.Args, d.Spec.Replicas)
	}
	if c.LivenessProbe.HTTPGet.Port != "http" || c.ReadinessProbe.HTTPGet.Port != "http" || c.LivenessProbe.HTTPGet.Path != "/livez" {
		t.Errorf("probes: %+v, %+v", c.LivenessProbe, c.ReadinessProbe)
	}
	for path, header := range map[string]http.Header{
		c.LivenessProbe.HTTPGet.Path:    nil,
		c.ReadinessProbe.HTTPGet.Path:   nil,
		"/v1/policies":                  {"Authorization": {"Bearer the-token-of-the-callers"}},
		"/gate/search?ip=192.0.2.1":     {"Weir-Gate-Secret": {"the-secret-of-the-gates"}},
		"/gate/search?ip=192.0.2.2&n=2": {"Authorization": {"Bearer the-token-of-the-callers"}},
	} {
		if status, body := w.get(w.main, path, header); status != 200 && status != 204 {
			t.Errorf("%s: status %d, %s", path, status, body)
		}
	}
	for _, path := range []string{"/v1/policies", "/gate/search?ip=192.0.2.1"} {
		if status, _ := w.get(w.main, path, nil); status != 401 {
			t.Errorf("%s without a token: status %d, want 401", path, status)
		}
	}
	if status, _ := w.get(w.admin, "/metrics", nil); status != 401 {
		t.Errorf("/metrics without a token: status %d, want 401", status)
	}
	if status, body := w.get(w.admin, "/metrics", http.Header{"Authorization": {"Bearer the-token-of-operators"}}); status != 200 || !bytes.Contains(body, []byte("weir_decisions_total")) {
		t.Errorf("/metrics: status %d, %s", status, body)
	}
	if said := w.said(); strings.Contains(said, "the-token-of") || strings.Contains(said, "the-secret-of") {
		t.Errorf("weir says its secrets:\n%s", said)
	}
}
