package deploy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/policy"
)

// value returns the value at a path in a file of the directory kubernetes, such as
// spec.containers.0.args; nil if there is none.
func value(t *testing.T, file, path string) any {
	t.Helper()
	var at any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join("kubernetes", file))), &at); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch from := at.(type) {
		case map[string]any:
			at = from[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(from) {
				t.Fatalf("%s: there is no %s", file, path)
			}
			at = from[i]
		default:
			return nil
		}
	}
	return at
}

// list returns the strings at a path.
func list(t *testing.T, file, path string) (all []string) {
	t.Helper()
	for _, v := range value(t, file, path).([]any) {
		all = append(all, v.(string))
	}
	return all
}

// values maps places, a file and a path, to values in JSON.
type values map[[2]string]string

func (v values) check(t *testing.T) {
	t.Helper()
	for place, want := range v {
		got, err := json.Marshal(value(t, place[0], place[1]))
		if err != nil || string(got) != want {
			t.Errorf("%s, %s: %s, %v; want %s", place[0], place[1], got, err, want)
		}
	}
}

const (
	labels      = `{"app.kubernetes.io/name":"weir"}`
	disk        = "../kubernetes-disk"
	deployment  = "deployment.yaml"
	statefulSet = disk + "/statefulset.yaml"
	container   = "spec.template.spec.containers.0."
)

// TestManifests: every file is listed and has its kind, and all speak of the same pods and
// ports. Callers reach the port of decisions, Prometheus that of operators, and weir reaches the
// store and the names: no rule is open to all.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("kubernetes/*.yaml")
	if listed := list(t, "kustomization.yaml", "resources"); err != nil || len(files) != len(listed)+1 {
		t.Errorf("kustomization.yaml lists %q, and there are %q, %v", listed, files, err)
	}
	for file, kind := range map[string]string{deployment: "apps/v1 Deployment", "service.yaml": "v1 Service", "policies.yaml": "v1 ConfigMap",
		"poddisruptionbudget.yaml": "policy/v1 PodDisruptionBudget", "networkpolicy.yaml": "networking.k8s.io/v1 NetworkPolicy", statefulSet: "apps/v1 StatefulSet"} {
		version, name, _ := strings.Cut(kind, " ")
		values{{file, "apiVersion"}: strconv.Quote(version), {file, "kind"}: strconv.Quote(name), {file, "metadata.labels"}: labels}.check(t)
	}
	const ports = `[{"containerPort":7070,"name":"http"},{"containerPort":7072,"name":"admin"}]`
	values{
		{deployment, "spec.selector.matchLabels"}:                 labels,
		{deployment, "spec.template.metadata.labels"}:             labels,
		{statefulSet, "spec.template.metadata.labels"}:            labels,
		{"poddisruptionbudget.yaml", "spec.selector.matchLabels"}: labels,
		{"networkpolicy.yaml", "spec.podSelector.matchLabels"}:    labels,
		{"networkpolicy.yaml", "spec.policyTypes"}:                `["Ingress","Egress"]`,
		{"networkpolicy.yaml", "spec.ingress"}: `[{"from":[{"podSelector":{"matchLabels":{"weir-client":"true"}}}],"ports":[{"port":"http"}]},` +
			`{"from":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}],"ports":[{"port":"admin"}]}]`,
		{"networkpolicy.yaml", "spec.egress"}: `[{"ports":[{"port":6379}],"to":[{"podSelector":{"matchLabels":{"app.kubernetes.io/name":"redis"}}}]},` +
			`{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}],"to":[{"namespaceSelector":{},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}]}]`,
		{"service.yaml", "spec"}:          `{"ports":[{"name":"http","port":7070,"targetPort":"http"}],"selector":` + labels + `}`,
		{deployment, container + "ports"}: ports,
	}.check(t)
	if !slices.Contains(list(t, deployment, container+"args"), "--store=redis://redis:6379") {
		t.Error("the NetworkPolicy opens another port than that of the store")
	}
}

// TestPodsAreConfined: a pod has no more rights than weir needs.
func TestPodsAreConfined(t *testing.T) {
	for _, file := range []string{deployment, statefulSet} {
		values{
			{file, "spec.template.spec.automountServiceAccountToken"}: "false",
			{file, "spec.template.spec.securityContext"}: `{"fsGroup":65532,"runAsGroup":65532,"runAsNonRoot":true,"runAsUser":65532,` +
				`"seccompProfile":{"type":"RuntimeDefault"}}`,
			{file, "spec.template.spec.volumes"}: `[{"configMap":{"name":"weir-policies"},"name":"policies"},` +
				`{"name":"secrets","secret":{"defaultMode":288,"secretName":"weir"}}]`, // 288 = 0440
			{file, container + "securityContext"}:        `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true}`,
			{file, container + "volumeMounts.0"}:         `{"mountPath":"/etc/weir/policies","name":"policies","readOnly":true}`,
			{file, container + "volumeMounts.1"}:         `{"mountPath":"/etc/weir/secrets","name":"secrets","readOnly":true}`,
			{file, container + "livenessProbe.httpGet"}:  `{"path":"/livez","port":"http"}`,
			{file, container + "readinessProbe.httpGet"}: `{"path":"/readyz","port":"http"}`,
		}.check(t)
	}
	if mounts := value(t, deployment, container+"volumeMounts").([]any); len(mounts) != 2 {
		t.Errorf("the Deployment has the mounts %v, want 2", mounts)
	}
	// --instances is the most that run at once.
	values{{deployment, "spec.replicas"}: "2", {deployment, "spec.strategy.rollingUpdate"}: `{"maxSurge":1,"maxUnavailable":0}`}.check(t)
	if args := list(t, deployment, container+"args"); !slices.Contains(args, "--instances=3") {
		t.Errorf("the arguments %q, want --instances=3", args)
	}
}

// TestPodsBoundMemory: the connections of both listeners, and the histories of a store in the pod,
// fit in the collector's bound, and that in the pod's.
func TestPodsBoundMemory(t *testing.T) {
	const rest, admin = 48 << 20, 100 // rest is the program with its policies
	for _, file := range []string{deployment, statefulSet} {
		args := strings.Join(list(t, file, container+"args"), "\n")
		conns, _ := strconv.ParseInt(only(t, args, `^--max-connections=(\d+)$`), 10, 64)
		var histories int64
		if !strings.Contains(args, "--store=redis:") {
			histories = bytesOf(t, only(t, args, `^--max-memory=(\w+)$`))
		}
		values{{file, container + "env.0.name"}: `"GOMEMLIMIT"`}.check(t)
		collector := bytesOf(t, value(t, file, container+"env.0.value").(string))
		pod := bytesOf(t, value(t, file, container+"resources.limits.memory").(string)+"B")
		if need := rest + histories + (conns+admin)*perConnection; conns == 0 || need > collector || collector >= pod {
			t.Errorf("%s: %d connections and the histories need %d bytes, GOMEMLIMIT is %d, the pod's limit %d; want them in ascending order", file, conns, need, collector, pod)
		}
	}
}

// podPolicies returns the policies of the ConfigMap.
func podPolicies(t *testing.T) string {
	t.Helper()
	text := value(t, "policies.yaml", "data").(map[string]any)["weir.yaml"].(string)
	if f, err := policy.Parse("weir.yaml", []byte(text)); err != nil || len(f.Policies) == 0 {
		t.Fatalf("%v, %v", f, err)
	}
	return text
}

// startPod starts weir with the arguments of a pod and the files that it mounts.
func startPod(t *testing.T, file string) *weir {
	t.Helper()
	return startWeir(t, list(t, file, container+"args"), map[string]string{
		"/etc/weir/policies/weir.yaml":  podPolicies(t),
		"/etc/weir/secrets/token":       "the-token-of-the-callers",
		"/etc/weir/secrets/gate-secret": "the-secret-of-the-gates",
		"/etc/weir/secrets/admin-token": "the-token-of-operators",
	})
}

// TestDeploymentRuns starts weir with the arguments of the Deployment: its probes
// succeed and expose nothing, and requests without a token are rejected.
func TestDeploymentRuns(t *testing.T) {
	w := startPod(t, deployment)
	caller, gate := http.Header{"Authorization": {"Bearer the-token-of-the-callers"}}, http.Header{"Weir-Gate-Secret": {"the-secret-of-the-gates"}}
	w.gets(w.main, 200, nil, "/livez", "/readyz")
	w.gets(w.main, 200, caller, "/v1/policies", "/gate/search?ip=192.0.2.2&n=2")
	w.gets(w.main, 200, gate, "/gate/search?ip=192.0.2.1")
	w.gets(w.main, 401, nil, "/v1/policies", "/gate/search?ip=192.0.2.1")
	w.gets(w.admin, 401, nil, "/metrics")
	if status, body := w.get(w.admin, "/metrics", http.Header{"Authorization": {"Bearer the-token-of-operators"}}); status != 200 || !bytes.Contains(body, []byte("weir_decisions_total")) {
		t.Errorf("/metrics: status %d, %s", status, body)
	}
	if said := w.Output(); strings.Contains(said, "the-token-of") || strings.Contains(said, "the-secret-of") {
		t.Errorf("weir says its secrets:\n%s", said)
	}
}

// wantKept uses up the limit of a gate, restarts weir, and expects a denial. It ends the
// weir that it is given.
func wantKept(t *testing.T, w *weir, start func() *weir, gate string, header http.Header) {
	t.Helper()
	status := 0
	for range 1000 {
		if status, _ = w.get(w.main, gate, header); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests {
		t.Fatalf("%s: status %d after 1,000 requests, want a denial", gate, status)
	}
	w.stop()
	w = start()
	if status, body := w.get(w.main, gate, header); status != http.StatusTooManyRequests {
		t.Errorf("%s after a restart: status %d, %s; want the denial again", gate, status, body)
	}
	w.stop()
}

// TestDiskManifests: the pod with a disk replaces the Deployment and keeps all else. Only the
// disk can be written.
func TestDiskManifests(t *testing.T) {
	values{
		{disk + "/kustomization.yaml", "resources"}: `["../kubernetes","statefulset.yaml"]`,
		{disk + "/kustomization.yaml", "patches"}:   `[{"patch":"$patch: delete\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: weir}\n"}]`,
		{statefulSet, "spec.replicas"}:              "1", // a directory is of one process
		{statefulSet, container + "volumeMounts.2"}: `{"mountPath":"/var/lib/weir","name":"store"}`,

		{statefulSet, "spec.volumeClaimTemplates.0.metadata.name"}:    `"store"`,
		{statefulSet, "spec.volumeClaimTemplates.0.spec.accessModes"}: `["ReadWriteOnce"]`,
	}.check(t)
	if mounts, claims := value(t, statefulSet, container+"volumeMounts").([]any), value(t, statefulSet, "spec.volumeClaimTemplates").([]any); len(mounts) != 3 || len(claims) != 1 {
		t.Errorf("mounts %v, claims %v; want 3 and one disk", mounts, claims)
	}
	same := slices.DeleteFunc(list(t, deployment, container+"args"), func(arg string) bool { return strings.HasPrefix(arg, "--instances=") })
	i := slices.IndexFunc(same, func(arg string) bool { return strings.HasPrefix(arg, "--store=") })
	same = slices.Replace(same, i, i+1, "--store=file:/var/lib/weir/store", "--max-memory=128MiB")
	if args := list(t, statefulSet, container+"args"); !slices.Equal(args, same) {
		t.Errorf("arguments %q, want %q", args, same)
	}
}

// TestDiskPodKeepsItsLimits starts weir with the arguments of the StatefulSet, twice.
func TestDiskPodKeepsItsLimits(t *testing.T) {
	start := func() *weir { return startPod(t, statefulSet) }
	wantKept(t, start(), start, "/gate/search?ip=192.0.2.1", http.Header{"Weir-Gate-Secret": {"the-secret-of-the-gates"}})
}
