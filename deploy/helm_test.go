package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// The files of testdata are what helm makes of the chart, with the values of the same name. The
// tests of module release render them with helm; those here need it not.

// sources returns a line for each file from which the others of testdata are made.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range []string{"helm/weir", "helm/testdata/values"} {
		must.Do(t, filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(file))
			return err
		}))
	}
	return b.String()
}

// TestRenderedFilesAreNew: whoever changes the chart renders it again.
func TestRenderedFilesAreNew(t *testing.T) {
	if got, want := read(t, "helm/testdata/sources.sha256"), sources(t); got != want {
		t.Errorf("the chart or its values have changed; render them again: cd release && go test -tags dist -run TestDistChart -args -rewrite")
	}
}

// value returns the value at a path in the object of a kind and name in a rendered file, such as
// spec.containers.0.args; nil if there is none.
func value(t *testing.T, file, object, path string) any {
	t.Helper()
	at := objects(t, file)[object]
	if at == nil {
		t.Fatalf("%s has no %s", file, object)
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

// objects returns the objects of a rendered file by kind and name.
func objects(t *testing.T, file string) map[string]any {
	t.Helper()
	all := map[string]any{}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "helm/testdata/"+file+".yaml")))
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Do(t, err)
		all[fmt.Sprint(object["kind"], " ", object["metadata"].(map[string]any)["name"])] = object
	}
}

// list returns the strings at a path.
func list(t *testing.T, file, object, path string) (all []string) {
	t.Helper()
	for _, v := range value(t, file, object, path).([]any) {
		all = append(all, v.(string))
	}
	return all
}

// values maps places, a file, an object and a path, to values in JSON.
type values map[[3]string]string

func (v values) check(t *testing.T) {
	t.Helper()
	for place, want := range v {
		got, err := json.Marshal(value(t, place[0], place[1], place[2]))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", place, got, err, want)
		}
	}
}

const (
	labels      = `{"app.kubernetes.io/instance":"weir","app.kubernetes.io/name":"weir"}`
	adminLabels = `{"app.kubernetes.io/component":"admin","app.kubernetes.io/instance":"weir","app.kubernetes.io/name":"weir"}`
	deployment  = "Deployment weir"
	statefulSet = "StatefulSet weir"
	network     = "NetworkPolicy weir"
	budget      = "PodDisruptionBudget weir"
	service     = "Service weir"
	container   = "spec.template.spec.containers.0."
)

// pods are the objects with pods, by the stores.
var pods = map[string]string{"memory": deployment, "disk": statefulSet, "redis": deployment}

// TestManifests: all objects speak of the same pods and ports. Callers reach the port of decisions,
// Prometheus that of operators, and weir reaches the store and the names: no rule is open to all.
func TestManifests(t *testing.T) {
	const ports = `[{"containerPort":7070,"name":"http"},{"containerPort":7072,"name":"admin"}]`
	const ingress = `[{"from":[{"podSelector":{"matchLabels":{"weir-client":"true"}}}],"ports":[{"port":"http"}]},` +
		`{"from":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}],"ports":[{"port":"admin"}]}]`
	for file, pod := range pods {
		values{
			{file, pod, "spec.selector.matchLabels"}:        labels,
			{file, pod, container + "ports"}:                ports,
			{file, service, "spec.selector"}:                labels,
			{file, service, "spec.ports"}:                   `[{"name":"http","port":7070,"targetPort":"http"}]`,
			{file, network, "spec.podSelector.matchLabels"}: labels,
			{file, network, "spec.policyTypes"}:             `["Ingress","Egress"]`,
			{file, network, "spec.ingress"}:                 ingress,
		}.check(t)
	}
	values{
		{"memory", network, "spec.egress"}: `[]`,
		{"disk", network, "spec.egress"}:   `[]`,
		{"redis", network, "spec.egress"}: `[{"ports":[{"port":6379}],"to":[{"podSelector":{"matchLabels":{"app.kubernetes.io/name":"redis"}}}]},` +
			`{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}],"to":[{"namespaceSelector":{},"podSelector":{"matchLabels":{"k8s-app":"kube-dns"}}}]}]`,
		{"redis", budget, "spec"}: `{"maxUnavailable":1,"selector":{"matchLabels":` + labels + `}}`,
		{"redis", "ServiceMonitor weir", "spec"}: `{"endpoints":[{"authorization":{"credentials":{"key":"admin-token","name":"weir"}},"interval":"30s","path":"/metrics","port":"admin"}],` +
			`"selector":{"matchLabels":` + adminLabels + `}}`,
		{"redis", "Service weir-admin", "spec.ports"}: `[{"name":"admin","port":7072,"targetPort":"admin"}]`,
	}.check(t)
	if all := objects(t, "everything"); len(all) != 6 {
		t.Errorf("everything has %d objects, want 6: no PodDisruptionBudget", len(all))
	}
	for _, file := range []string{"memory", "disk"} {
		if all := objects(t, file); len(all) != 4 || all[budget] != nil {
			t.Errorf("%s: %d objects, a PodDisruptionBudget %v; want 4 and none: one pod would block each eviction", file, len(all), all[budget])
		}
	}
}

// TestPodsAreConfined: a pod has no more rights than weir needs.
func TestPodsAreConfined(t *testing.T) {
	for file, pod := range pods {
		values{
			{file, pod, "spec.template.spec.automountServiceAccountToken"}: "false",
			{file, pod, "spec.template.spec.securityContext"}: `{"fsGroup":65532,"runAsGroup":65532,"runAsNonRoot":true,"runAsUser":65532,` +
				`"seccompProfile":{"type":"RuntimeDefault"}}`,
			{file, pod, "spec.template.spec.volumes"}: `[{"configMap":{"name":"weir-policies"},"name":"policies"},` +
				`{"name":"secrets","secret":{"defaultMode":288,"secretName":"weir"}}]`, // 288 = 0440
			{file, pod, container + "securityContext"}:        `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true}`,
			{file, pod, container + "volumeMounts.0"}:         `{"mountPath":"/etc/weir/policies","name":"policies","readOnly":true}`,
			{file, pod, container + "volumeMounts.1"}:         `{"mountPath":"/etc/weir/secrets","name":"secrets","readOnly":true}`,
			{file, pod, container + "livenessProbe.httpGet"}:  `{"path":"/livez","port":"http"}`,
			{file, pod, container + "readinessProbe.httpGet"}: `{"path":"/readyz","port":"http"}`,
		}.check(t)
		mounts := 2
		if file == "disk" {
			mounts = 3
		}
		if all := value(t, file, pod, container+"volumeMounts").([]any); len(all) != mounts {
			t.Errorf("%s has the mounts %v, want %d", file, all, mounts)
		}
	}
	// --instances is the most that run at once, and a directory is of one process.
	const gradual = `{"maxSurge":1,"maxUnavailable":0}`
	values{
		{"redis", deployment, "spec.replicas"}:                "2",
		{"redis", deployment, "spec.strategy.rollingUpdate"}:  gradual,
		{"memory", deployment, "spec.replicas"}:               "1",
		{"memory", deployment, "spec.strategy.rollingUpdate"}: gradual,
		{"disk", statefulSet, "spec.replicas"}:                "1",

		{"disk", statefulSet, "spec.volumeClaimTemplates.0.metadata.name"}:    `"store"`,
		{"disk", statefulSet, "spec.volumeClaimTemplates.0.spec.accessModes"}: `["ReadWriteOnce"]`,
		{"disk", statefulSet, container + "volumeMounts.2"}:                   `{"mountPath":"/var/lib/weir","name":"store"}`,
	}.check(t)
	if args := list(t, "redis", deployment, container+"args"); !slices.Contains(args, "--instances=3") {
		t.Errorf("the arguments %q, want --instances=3", args)
	}
}

// TestPodsBoundMemory: the connections of both listeners, and the histories of a store in the pod,
// fit in the collector's bound, and that in the pod's.
func TestPodsBoundMemory(t *testing.T) {
	const rest, admin = 48 << 20, 100 // rest is the program with its policies
	for file, pod := range pods {
		args := strings.Join(list(t, file, pod, container+"args"), "\n")
		conns, _ := strconv.ParseInt(only(t, args, `^--max-connections=(\d+)$`), 10, 64)
		var histories int64
		if file != "redis" {
			histories = bytesOf(t, only(t, args, `^--max-memory=(\w+)$`))
		}
		values{{file, pod, container + "env.0.name"}: `"GOMEMLIMIT"`}.check(t)
		collector := bytesOf(t, value(t, file, pod, container+"env.0.value").(string))
		limit := bytesOf(t, value(t, file, pod, container+"resources.limits.memory").(string)+"B")
		if need := rest + histories + (conns+admin)*perConnection; conns == 0 || need > collector || collector >= limit {
			t.Errorf("%s: %d connections and the histories need %d bytes, GOMEMLIMIT is %d, the pod's limit %d; want them in ascending order", file, conns, need, collector, limit)
		}
	}
}

// startPod starts weir with the arguments of a pod and the files that it mounts.
func startPod(t *testing.T, file string) *weir {
	t.Helper()
	text := value(t, file, "ConfigMap weir-policies", "data").(map[string]any)["weir.yaml"].(string)
	if f, err := policy.Parse("weir.yaml", []byte(text)); err != nil || len(f.Policies) == 0 {
		t.Fatalf("%v, %v", f, err)
	}
	return startWeir(t, list(t, file, pods[file], container+"args"), map[string]string{
		"/etc/weir/policies/weir.yaml":  text,
		"/etc/weir/secrets/token":       "the-token-of-the-callers",
		"/etc/weir/secrets/gate-secret": "the-secret-of-the-gates",
		"/etc/weir/secrets/admin-token": "the-token-of-operators",
	})
}

// TestPodRuns starts weir with the arguments of the pods: their probes succeed and expose nothing,
// and requests without a token are rejected.
func TestPodRuns(t *testing.T) {
	caller, gate := http.Header{"Authorization": {"Bearer the-token-of-the-callers"}}, http.Header{"Weir-Gate-Secret": {"the-secret-of-the-gates"}}
	for file := range pods {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			w := startPod(t, file)
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
		})
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

// TestDiskPodKeepsItsLimits starts weir with the arguments of the StatefulSet, twice.
func TestDiskPodKeepsItsLimits(t *testing.T) {
	start := func() *weir { return startPod(t, "disk") }
	wantKept(t, start(), start, "/gate/search?ip=192.0.2.1", http.Header{"Weir-Gate-Secret": {"the-secret-of-the-gates"}})
}
