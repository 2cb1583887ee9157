package deploy

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

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
	for i, arg := range same {
		if strings.HasPrefix(arg, "--store=") {
			same[i] = "--store=file:/var/lib/weir/store"
		}
	}
	if args := list(t, statefulSet, container+"args"); !slices.Equal(args, same) {
		t.Errorf("arguments %q, want %q", args, same)
	}
}

// TestDiskPodKeepsItsLimits starts weir with the arguments of the StatefulSet, twice.
func TestDiskPodKeepsItsLimits(t *testing.T) {
	start := func() *weir { return startPod(t, statefulSet) }
	wantKept(t, start(), start, "/gate/search?ip=192.0.2.1", http.Header{"Weir-Gate-Secret": {"the-secret-of-the-gates"}})
}
