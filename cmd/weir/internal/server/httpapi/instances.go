package httpapi

import (
	"context"
	"net/http"
)

// Instance is a weir serve process that uses the store.
type Instance struct {
	Name    string `json:"name" jsonschema:"the name of its host, and a random part for each start"`
	Version string `json:"version"`
	Started string `json:"started" jsonschema:"RFC 3339"`
	Seen    string `json:"seen" jsonschema:"its last heartbeat by the clock of the store, RFC 3339; one every 5 seconds"`
	Listen  string `json:"listen,omitempty" jsonschema:"the address of its main listener"`
	Here    bool   `json:"here,omitempty" jsonschema:"the instance that answers"`
}

// InstanceList is the answer to GET /v1/instances.
type InstanceList struct {
	Instances []Instance `json:"instances" jsonschema:"the one that answers first; one without a heartbeat for 15 seconds is left out"`
	Problem   string     `json:"problem,omitempty" jsonschema:"the reason why others are not known"`
}

// serveInstances answers with the instances that use the store.
func (a *API) serveInstances(w http.ResponseWriter, _ *http.Request) {
	ctx, cancel := context.WithTimeout(background, storeTimeout)
	defer cancel()
	all, err := a.Instances(ctx)
	list := InstanceList{Instances: all}
	if err != nil {
		list.Problem = "the store is unavailable, so other instances are not known; " +
			"see store_down of /readyz"
	}
	writeJSON(w, http.StatusOK, marshal(list))
}
