package httpapi

import (
	"net/http"
	"strings"
)

// route is one path of the interface.
type route struct {
	path    string   // with {policy} at its end, the rest of the path is a name
	methods []string // nil = any
	role    role
	serve   func(*API, http.ResponseWriter, *http.Request)

	// For the OpenAPI document.
	summary string
	takes   member // members of the body
	answer  any    // an example of the type of the answer; nil = no JSON
}

var (
	get    = []string{http.MethodGet, http.MethodHead}
	post   = []string{http.MethodPost}
	remove = []string{http.MethodDelete}
)

// routes lists the paths. The role selects the callers; the 404 text, the 405 text and
// openapi.json follow from the table.
var routes = []route{
	{"/v1/check", post, decisions, (*API).serveCheck, "decides an attempt and charges it", decisionMembers, decision{}},
	{"/v1/peek", post, decisions, (*API).servePeek, "decides an attempt and changes nothing", peekMembers, decision{}},
	{"/v1/record", post, decisions, (*API).serveRecord, "adds units without a decision", decisionMembers, decision{}},
	{"/v1/refund", post, decisions, (*API).serveRefund, "takes units of a grant back", refundMembers, refund{}},
	{"/v1/reserve", post, decisions, (*API).serveReserve, "decides an attempt whose units are settled later", reserveMembers, reservation{}},
	{"/v1/settle", post, decisions, (*API).serveSettle, "settles a reservation with the units that were used", settleMembers, settlement{}},
	{"/v1/release", post, decisions, (*API).serveRelease, "settles a reservation with 0 units", releaseMembers, settlement{}},
	{"/v1/keys/{policy}", remove, operators, (*API).serveReset, "drops the histories of a key", 0, nil},
	{"/gate/{policy}", nil, gates, (*API).serveGate, "decides an attempt for a proxy and charges it", 0, nil},
	{"/json", post, decisions, (*API).serveEnvoy, "decides by Envoy's rate limit service in JSON", 0, map[string]any{}},
	{"/v1/reload", post, operators, (*API).serveReload, "reads the policy file again", 0, reloaded{}},
	{"/v1/policies", get, decisions, (*API).servePolicies, "lists the policies in force", 0, PolicyList{}},
	{"/v1/top", get, operators, (*API).serveTop, "lists the keys that are denied most", 0, TopList{}},
	{"/openapi.json", get, decisions, (*API).serveOpenAPI, "returns this document", 0, map[string]any{}},
	{"/livez", get, probes, (*API).serveLive, "reports that the process answers", 0, liveness{}},
	{"/readyz", get, probes, (*API).serveReady, "reports whether the server takes requests", 0, Readiness{}},
	{"/healthcheck", get, probes, (*API).serveHealth, "reports Readiness as Envoy's reference service does", 0, nil},
	{"/metrics", get, operators, (*API).serveMetrics, "returns metrics in the text format of Prometheus", 0, nil},
}

const policyName = "{policy}"

var (
	byPath  = map[string]*route{}
	byStart []*route // those with a name at the end
	unknown = &route{role: operators}
	paths   []string // for suggestions
	listed  string   // all routes, for the answer 404
)

func init() {
	method := ""
	var b strings.Builder
	for i := range routes {
		to := &routes[i]
		if strings.HasSuffix(to.path, policyName) {
			byStart = append(byStart, to)
		} else {
			byPath[to.path] = to
			paths = append(paths, to.path)
		}
		by := "ANY"
		if len(to.methods) > 0 {
			by = to.methods[0]
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if by != method {
			b.WriteString(by + " ")
			method = by
		}
		b.WriteString(to.path)
	}
	listed = b.String()
}

// routeOf returns the route of a path. An unknown path has no handler, and the role of
// operators: so a caller without rights does not learn which paths exist.
func routeOf(path string) *route {
	if to := byPath[path]; to != nil {
		return to
	}
	for _, to := range byStart {
		if strings.HasPrefix(path, strings.TrimSuffix(to.path, policyName)) {
			return to
		}
	}
	return unknown
}

// nameIn returns the policy's name at the end of a path.
func nameIn(path, pattern string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(pattern, policyName))
}
