package httpapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var update = flag.Bool("update", false, "write openapi.json anew")

type object = map[string]any

// TestOpenAPIFollowsTheRoutes compares openapi.json with the document that the table of
// routes yields; go test ./cmd/weir/internal/server/httpapi -update writes it.
func TestOpenAPIFollowsTheRoutes(t *testing.T) {
	want := must.Get(json.MarshalIndent(openAPIOf(routes), "", " "))(t)
	want = append(want, '\n')
	if *update {
		must.Do(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	if !bytes.Equal(openAPI, want) {
		t.Error("openapi.json differs from the table of routes; run go test ./cmd/weir/internal/server/httpapi -update")
	}
}

// TestOpenAPIIsValid validates openapi.json by the schema of the OpenAPI Initiative
// (spec.openapis.org/oas/3.1/schema/2022-10-07), and its schemas by JSON Schema 2020-12.
func TestOpenAPIIsValid(t *testing.T) {
	document := readJSON(t, openAPI)
	file := must.Get(os.ReadFile("testdata/openapi-3.1-schema.json"))(t)
	c := validator.NewCompiler()
	must.Do(t, c.AddResource("openapi-3.1-schema.json", readJSON(t, file)))
	must.Do(t, c.AddResource("openapi.json", document))
	must.Do(t, c.MustCompile("openapi-3.1-schema.json").Validate(document))
	for name := range document.(object)["components"].(object)["schemas"].(object) {
		if _, err := c.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
	// A document without an answer, and one with an unknown version, are not valid.
	for _, wrong := range []string{`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/x":{"get":{"responses":3}}}}`, `{"openapi":"3.0.0","info":{"title":"x","version":"1"},"paths":{}}`} {
		if c.MustCompile("openapi-3.1-schema.json").Validate(readJSON(t, []byte(wrong))) == nil {
			t.Errorf("valid: %s", wrong)
		}
	}
}

func readJSON(t *testing.T, text []byte) any {
	t.Helper()
	return must.Get(validator.UnmarshalJSON(bytes.NewReader(text)))(t)
}

// problems are the statuses of problem documents besides those that follow from a role or
// a body.
var problems = map[string][]int{
	"/v1/settle": {404, 409, 410}, "/v1/release": {404, 409, 410}, "/v1/extend": {404, 409, 410}, "/v1/reload": {409, 422}, "/v1/top": {400, 404},
	"/v1/keys/{policy}": {400, 404, 503}, "/gate/{policy}": {400, 403, 404, 429, 503},
}

var roleNames = map[role]string{operators: "operators", decisions: "decisions", gates: "gates", probes: "probes"}

// openAPIOf returns the OpenAPI document of a table of routes.
func openAPIOf(table []route) object {
	schemas, all := object{"Problem": problemSchema()}, object{}
	for i := range table {
		to := &table[i]
		if _, ok := answers[to.path]; !ok {
			panic("answers lacks " + to.path)
		}
		item := object{}
		methods := to.methods
		if methods == nil {
			methods = []string{"GET", "POST"} // of any
		}
		for _, method := range methods {
			if method != "HEAD" {
				item[strings.ToLower(method)] = operation(to, method, schemas)
			}
		}
		all[to.path] = item
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "weir serve", "version": "1",
			"description": "Rate limits: rolling and fixed windows, buckets, and limits of what is in use at once. A denial is a result: POST /v1/check answers it with status 200."},
		"paths": all,
		"components": object{"schemas": schemas,
			"responses": object{"Problem": object{"description": "a problem document (RFC 9457); nothing was charged, unless it is a denial",
				"content": object{"application/problem+json": object{"schema": reference("Problem")}}}},
			"securitySchemes": object{
				"token": object{"type": "http", "scheme": "bearer", "description": "--token-file; for operators --admin-token-file"},
				"gate":  object{"type": "apiKey", "in": "header", "name": GateHeader, "description": "--gate-secret-file"}}},
	}
}

func operation(to *route, method string, schemas object) object {
	name := strings.ToLower(method) + strings.NewReplacer("{", "", "}", "", "/", "_", ".", "_").Replace(to.path)
	o := object{"operationId": name, "summary": to.summary, "tags": []string{roleNames[to.role]}}
	responses := object{"default": object{"$ref": "#/components/responses/Problem"}}
	status := problems[to.path]
	if to.role != probes {
		status = append(status, 401, 403, 503)
		o["security"] = []object{{}, {"token": []string{}}}
	}
	if to.role == gates {
		o["security"] = []object{{}, {"token": []string{}}, {"gate": []string{}}}
	}
	if to.takes != 0 {
		status = append(status, 400)
		o["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": reference(bodySchema(to.takes, schemas))}}}
		if to.takes&idMember != 0 {
			o["parameters"] = []object{{"name": idempotencyField, "in": "header", "description": "as the member id", "schema": object{"type": "string"}}}
		}
	}
	for _, code := range status {
		responses[strconv.Itoa(code)] = object{"$ref": "#/components/responses/Problem"}
	}
	switch {
	case to.takes == batchMembers:
		responses["200"] = object{"description": "the answers, in the order of the checks", "content": object{"application/json": object{"schema": reference(batchSchema(schemas))}}}
	case answers[to.path] != nil:
		answer := object{"description": "the result", "content": object{"application/json": object{"schema": reference(answerSchema(answers[to.path], schemas))}}}
		responses["200"] = answer
		if to.path == "/readyz" {
			responses["503"] = answer
		}
	case to.path == "/metrics":
		responses["200"] = object{"description": "text", "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	default:
		responses["204"] = object{"description": "done; at a gate: the request may pass"}
	}
	if strings.HasSuffix(to.path, policyName) {
		o["parameters"] = []object{
			{"name": "policy", "in": "path", "required": true, "schema": object{"type": "string"}},
			{"name": "key", "in": "query", "description": "a value for each dimension of the policy", "style": "form", "explode": true,
				"schema": object{"type": "object", "additionalProperties": object{"type": "string"}}}}
	}
	o["responses"] = responses
	return o
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// answerSchema adds the schema of an answer's type and returns its name.
func answerSchema(v any, schemas object) string {
	of := reflect.TypeOf(v)
	name := of.Name()
	if name == "" {
		return looseSchema(schemas)
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	s, err := jsonschema.ForType(of, &jsonschema.ForOptions{})
	if err != nil {
		panic(err)
	}
	if name == "Readiness" { // a caller without credentials gets one member
		s.Required = []string{"ready"}
	}
	nonNull(s)
	schemas[name] = s
	return name
}

// batchSchema adds the schema of the answer to a batch and returns its name.
func batchSchema(schemas object) string {
	problem := problemSchema()
	members := problem["properties"].(object)
	delete(members, "violated-policies")
	delete(members, "retry_after_ms")
	members["index"] = object{"type": "integer", "description": "of the check, from 0"}
	problem["required"] = append(problem["required"].([]string), "index")
	schemas["CheckProblem"] = problem
	schemas["Decisions"] = object{"type": "object", "additionalProperties": false, "required": []string{"checks"},
		"properties": object{"checks": object{"type": "array", "minItems": 1, "maxItems": maxChecks,
			"items": object{"oneOf": []object{reference(answerSchema(decision{}, schemas)), reference("CheckProblem")}}}}}
	return "Decisions"
}

// nonNull removes null from types of slices, maps and pointers: answers leave such members
// away, or hold empty ones.
func nonNull(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		nonNull(p)
	}
	if s.Items != nil {
		nonNull(s.Items)
	}
}

func looseSchema(schemas object) string {
	schemas["Object"] = object{"type": "object"}
	return "Object"
}

// bodySchema adds the schema of a body and returns its name.
func bodySchema(takes member, schemas object) string {
	units := func(about string, min int) object {
		return object{"type": "integer", "minimum": min, "maximum": weir.MaxUnits, "description": about}
	}
	text := func(about string) object { return object{"type": "string", "description": about} }
	all := []object{
		text("the name of a policy"),
		{"type": "object", "additionalProperties": object{"type": "string", "maxLength": weir.MaxValueBytes}, "maxProperties": weir.MaxDimensions, "description": "a value for each dimension of the policy"},
		units("units, default 1", 0),
		{"type": "integer", "minimum": 0, "maximum": weir.MaxInstant, "description": "the instant of the grant, in microseconds since 1970"},
		text("the same instant as the answer holds it in at"),
		{"type": "string", "minLength": 1, "maxLength": weir.MaxIDBytes, "description": "an idempotency key: a retry with it is charged once"},
		units("milliseconds until the reservation expires, at most and by default the longest window; under a concurrency limit, at least the longest hold", 1),
		text("the token of a reservation"),
		units("units that were used, by default all that were reserved", 0),
		{"type": "array", "minItems": 1, "maxItems": maxChecks, "items": reference("CheckRequest"), "description": "decided in their order"},
		{"type": "boolean", "default": false, "description": "whether all checks are granted and charged or none; at most 16 limits and blocks in total"},
		text("the name of a rolling limit; may be missing if the policy has one limit"),
		{"type": "integer", "minimum": 1, "maximum": weir.MaxWindow.Milliseconds(), "description": "the span to count, milliseconds, at most the window of the limit"},
	}
	properties, required := object{}, []string{}
	for i, name := range memberNames {
		m := member(1) << i
		if takes&m == 0 {
			continue
		}
		properties[name] = all[i]
		if m == lastMember || m == policyMember || m == tokenMember || m == checksMember {
			required = append(required, name)
		}
	}
	names := map[member]string{peekMembers: "PeekRequest", countMembers: "CountRequest", decisionMembers: "CheckRequest", refundMembers: "RefundRequest",
		reserveMembers: "ReserveRequest", settleMembers: "SettleRequest", releaseMembers: "ReleaseRequest", batchMembers: "ChecksRequest"}
	schemas[names[takes]] = object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	return names[takes]
}

func problemSchema() object {
	text, number := object{"type": "string"}, object{"type": "integer"}
	return object{"type": "object", "additionalProperties": false, "required": []string{"type", "title", "status", "detail"},
		"properties": object{"type": text, "title": text, "status": number,
			"detail":            object{"type": "string", "description": "the fault, its place and the next step"},
			"violated-policies": object{"type": "array", "items": text, "description": "of a denial: the limits that denied it"},
			"retry_after_ms":    object{"type": "integer", "description": "of a denial: milliseconds until the same request is granted; -1 = never"}}}
}

// answers holds an example of the type of each answer; nil = no JSON.
var answers = map[string]any{
	"/v1/check":         decision{},
	"/v1/checks":        nil, // decisions and problems, see batchSchema
	"/v1/peek":          decision{},
	"/v1/count":         count{},
	"/v1/record":        decision{},
	"/v1/refund":        refund{},
	"/v1/reserve":       reservation{},
	"/v1/settle":        reserve.Settlement{},
	"/v1/release":       reserve.Settlement{},
	"/v1/extend":        extension{},
	"/v1/keys/{policy}": nil,
	"/gate/{policy}":    nil,
	"/v1/reload":        reloaded{},
	"/v1/policies":      PolicyList{},
	"/v1/top":           TopList{},
	"/openapi.json":     map[string]any{},
	"/livez":            liveness{},
	"/readyz":           Readiness{},
	"/metrics":          nil,
}

// decision describes the JSON that answer.Answer writes, for the OpenAPI document. Waits
// are rounded up, so that obeying them is never too early.
type decision struct {
	Allowed      bool      `json:"allowed" jsonschema:"whether the attempt was granted, in full or in part"`
	Policy       string    `json:"policy"`
	Granted      int64     `json:"granted" jsonschema:"units that were granted"`
	Remaining    int64     `json:"remaining" jsonschema:"units that fit now; below 0 if records or denied attempts exceed a limit"`
	RetryAfterMS int64     `json:"retry_after_ms" jsonschema:"milliseconds until the same attempt is granted in full; -1 = never"`
	RetryAfterUS int64     `json:"retry_after_us" jsonschema:"the same in microseconds, exact"`
	ResetAfterMS int64     `json:"reset_after_ms" jsonschema:"milliseconds until nothing of the key counts"`
	At           string    `json:"at" jsonschema:"the instant of the decision by the clock of the store, RFC 3339 with microseconds"`
	Limit        string    `json:"limit" jsonschema:"the limit that denied or cut the attempt; empty if none did"`
	Degraded     bool      `json:"degraded,omitempty" jsonschema:"decided without the store"`
	Replayed     bool      `json:"replayed,omitempty" jsonschema:"the answer to an earlier request with the same id; nothing was charged again"`
	Cached       bool      `json:"cached,omitempty" jsonschema:"a denial that was repeated from memory; only without the states of limits"`
	Plan         string    `json:"plan,omitempty" jsonschema:"the plan whose numbers applied"`
	Override     *override `json:"override,omitempty" jsonschema:"the override whose numbers applied"`
	BlockedUntil string    `json:"blocked_until,omitempty" jsonschema:"the end of a block of the key, RFC 3339 with microseconds"`
	Warning      bool      `json:"warning,omitempty" jsonschema:"true on a grant that brought the use of a limit to its share for a warning or above"`
	WarnLimits   []string  `json:"warning_limits,omitempty" jsonschema:"with warning: the names of the limits"`
	Shadow       bool      `json:"shadow,omitempty" jsonschema:"the policy is not enforced"`
	Would        *would    `json:"would,omitempty" jsonschema:"the decision of a shadow policy"`
	Why          string    `json:"why" jsonschema:"the reason in one sentence, for people"`
	Limits       []state   `json:"limits" jsonschema:"the limits after the decision; empty if they are unknown"`
}

type override struct {
	Why   string `json:"why"`
	Until string `json:"until,omitempty" jsonschema:"RFC 3339; missing if it stays"`
}

type would struct {
	Allowed      bool   `json:"allowed"`
	Granted      int64  `json:"granted"`
	RetryAfterUS int64  `json:"retry_after_us" jsonschema:"-1 = never"`
	Limit        string `json:"limit"`
}

// state is a limit after a decision.
type state struct {
	Name         string            `json:"name"`
	Key          map[string]string `json:"key" jsonschema:"the dimensions that the limit counts by"`
	Max          int64             `json:"max" jsonschema:"units per window; of a concurrency limit, units in use"`
	Used         int64             `json:"used" jsonschema:"units that count now; of a bucket, units that are missing; of a concurrency limit, units that are held"`
	Remaining    int64             `json:"remaining" jsonschema:"max less used; of a bucket, burst less used"`
	WindowMS     int64             `json:"window_ms" jsonschema:"the length of the window, milliseconds, rounded up; of a period its length without changes of the clock, of a month 31 days"`
	MinInterval  int64             `json:"min_interval_ms,omitempty" jsonschema:"the least time between two grants, milliseconds, rounded up"`
	Kind         string            `json:"kind" jsonschema:"rolling, fixed, fixed_from_first, bucket or concurrency"`
	Burst        int64             `json:"burst,omitempty" jsonschema:"of a bucket: its capacity in units"`
	MaxHold      int64             `json:"max_hold_ms,omitempty" jsonschema:"of a concurrency limit: the longest time for which a unit is held, milliseconds, rounded up"`
	Period       string            `json:"period,omitempty" jsonschema:"of a fixed window of the wall clock: hour, day, week or month"`
	Zone         string            `json:"zone,omitempty" jsonschema:"with period: the time zone of the clock"`
	Anchor       int               `json:"anchor,omitempty" jsonschema:"with period: the first day of a month or of a week, 1 = Monday; missing = 1"`
	RetryAfterMS int64             `json:"retry_after_ms" jsonschema:"milliseconds until this limit admits the same attempt; -1 = never"`
	NextMS       int64             `json:"next_ms" jsonschema:"milliseconds until the next units leave the window or flow into the bucket, or until the next hold ends at the latest; 0 if nothing is used"`
	ResetAfterMS int64             `json:"reset_after_ms" jsonschema:"milliseconds until the window is empty or the bucket full"`
}

// reservation is the answer to POST /v1/reserve.
type reservation struct {
	decision
	Reservation string `json:"reservation,omitempty" jsonschema:"the token for /v1/settle; only after a grant"`
	ExpiresAt   string `json:"expires_at,omitempty" jsonschema:"from then on it cannot be settled, RFC 3339 with microseconds"`
	HeldUntil   string `json:"held_until,omitempty" jsonschema:"with a concurrency limit: the hold ends then unless it is settled or extended before"`
}

// TestRolesOfPaths: an unknown path, and a route without a role, is for operators.
func TestRolesOfPaths(t *testing.T) {
	for path, want := range map[string]role{
		"/v1/keys/search": operators, "/metrics": operators, "/v1/top": operators, "/v1/later": operators, "/gate/search": gates, "/gate/": gates,
		"/v1/check": decisions, "/v1/count": decisions, "/livez": probes,
	} {
		to := byPath[path]
		if to == nil {
			to = namedRoute(path)
		}
		if to.role != want {
			t.Errorf("%s has the role %d, want %d", path, to.role, want)
		}
	}
}
