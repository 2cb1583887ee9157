package httpapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var rewrite = flag.Bool("rewrite", false, "rewrite openapi.json")

type object = map[string]any

// TestOpenAPIFollowsTheRoutes: the paths, the bodies and the answers with a type in openapi.json
// follow from the table of routes; go test ./cmd/weir/internal/server/httpapi -rewrite writes
// them. The rest of the document is written by hand.
func TestOpenAPIFollowsTheRoutes(t *testing.T) {
	document, components, schemas := members{}, members{}, members{}
	must.Do(t, json.Unmarshal(openAPI, &document))
	must.Do(t, json.Unmarshal(document["components"], &components))
	must.Do(t, json.Unmarshal(components["schemas"], &schemas))
	maps.DeleteFunc(schemas, func(name string, _ json.RawMessage) bool { return !slices.Contains(untyped, name) })
	document.set("paths", pathsOf(routes, schemas))
	components.set("schemas", schemas)
	document.set("components", components)
	text, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := append(text, '\n')
	if *rewrite {
		must.Do(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	if !bytes.Equal(openAPI, want) {
		t.Error("openapi.json differs from the table of routes; run go test ./cmd/weir/internal/server/httpapi -rewrite")
	}
}

// untyped are the schemas that are written by hand.
var untyped = []string{"CheckProblem", "Decision", "Decisions", "History", "Object", "Problem", "Reservation"}

// members are those of a JSON object, each as its text.
type members map[string]json.RawMessage

func (m members) set(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	m[name] = text
}

// TestOpenAPIIsValid validates openapi.json by the schema of the OpenAPI Initiative
// (spec.openapis.org/oas/3.1/schema/2022-10-07), and its schemas by JSON Schema 2020-12.
func TestOpenAPIIsValid(t *testing.T) {
	document := readJSON(t, openAPI)
	file, err := os.ReadFile("testdata/openapi-3.1-schema.json")
	if err != nil {
		t.Fatal(err)
	}
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

// TestHandwrittenSchemasAgree: a reservation has the members of a decision, and the other parts
// that are written by hand follow the constants of the package.
func TestHandwrittenSchemasAgree(t *testing.T) {
	schemas := readJSON(t, openAPI).(object)["components"].(object)["schemas"].(object)
	of := func(name string) object { return schemas[name].(object)["properties"].(object) }
	reservation := of("Reservation")
	for name, member := range of("Decision") {
		if !reflect.DeepEqual(reservation[name], member) {
			t.Errorf("%s is %v of a decision, and %v of a reservation", name, member, reservation[name])
		}
	}
	for text, want := range map[string]int{fmt.Sprintf(`"name": %q`, GateHeader): 1, fmt.Sprintf(`"maxItems": %d`, maxChecks): 2} {
		if got := bytes.Count(openAPI, []byte(text)); got != want {
			t.Errorf("openapi.json has %s %d times, want %d", text, got, want)
		}
	}
}

func readJSON(t *testing.T, text []byte) any {
	t.Helper()
	document, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// problems are the statuses of problem documents besides those that follow from a role or
// a body.
var problems = map[string][]int{
	"/v1/settle": {409, 410}, "/v1/release": {409, 410}, "/v1/extend": {409, 410}, "/v1/reload": {409, 422}, "/v1/top": {400, 404}, "/v1/overrides": {400},
	"/v1/keys/{policy}": {400, 404, 503}, "/v1/overrides/{policy}": {400, 404, 412, 503}, "/gate/{policy}": {400, 403, 404, 429, 503},
}

var roleNames = map[role]string{operators: "operators", decisions: "decisions", gates: "gates", probes: "probes"}

// pathsOf returns the paths of a table of routes, and sets the schemas of their bodies and of
// answers with a type.
func pathsOf(table []route, schemas members) object {
	all := object{}
	for i := range table {
		to := &table[i]
		if to.role == shell {
			continue // files for browsers
		}
		item, known := all[to.path].(object)
		if !known {
			item = object{}
		}
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
	return all
}

// answerTo returns the value of the map answers for a call of a route.
func answerTo(to *route, method string) any {
	if of, ok := answers[method+" "+to.path]; ok {
		return of
	}
	of, ok := answers[to.path]
	if !ok {
		panic("the map answers of this file lacks " + to.path + ", a new route")
	}
	return of
}

func operation(to *route, method string, schemas members) object {
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
	switch made := answerTo(to, method); {
	case made != nil:
		answer := object{"description": "the result", "content": object{"application/json": object{"schema": reference(answerSchema(made, schemas))}}}
		responses["200"] = answer
		if to.path == statsPath {
			answer["content"].(object)["text/event-stream"] = object{"schema": object{"type": "string", "description": "events with the same object as data"}}
		}
		if to.path == "/readyz" {
			responses["503"] = answer
		}
		if to.path == "/v1/extend" {
			responses["429"] = object{"description": "the further units do not fit, and nothing was changed", "content": object{"application/json": object{"schema": reference("Decision")}}}
		}
	case to.path == "/metrics":
		responses["200"] = object{"description": "text", "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	default:
		responses["204"] = object{"description": "the request may pass"}
	}
	if to.path+"/" == overridesPath {
		o["parameters"] = []object{
			{"name": "n", "in": "query", "description": "at most so many; without it all", "schema": object{"type": "integer", "minimum": 1, "maximum": maxPage}},
			{"name": "after", "in": "query", "description": "the next of the page before", "schema": object{"type": "string"}}}
	}
	if strings.HasSuffix(to.path, policyName) {
		parameters := []object{
			{"name": "policy", "in": "path", "required": true, "schema": object{"type": "string"}},
			{"name": "key", "in": "query", "description": "a value for each dimension of the policy", "style": "form", "explode": true,
				"schema": object{"type": "object", "additionalProperties": object{"type": "string", "minLength": 1}}}}
		if to.takes&reasonMember != 0 { // its body has the key
			parameters[1] = object{"name": "If-Match", "in": "header", "description": "the ETag of the override that is replaced; another one is 412", "schema": object{"type": "string"}}
		}
		if to.op == engine.Reset {
			parameters = append(parameters, object{"name": limitSetting, "in": "query", "style": "form", "explode": true,
				"description": "the limits to reset, and only their dimensions are needed; default: those that count by every dimension",
				"schema":      object{"type": "array", "items": object{"type": "string"}}})
		}
		if strings.HasPrefix(to.path, keysPath) {
			parameters = append(parameters, object{"name": linesSetting, "in": "query", "style": "form", "explode": true,
				"description": "the limits of an inline policy, in the words of a policy file; needs --inline-policies",
				"schema":      object{"type": "array", "items": object{"type": "string"}}})
		}
		o["parameters"] = parameters
	}
	o["responses"] = responses
	return o
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// answerSchema sets the schema of an answer with a type, and returns its name.
func answerSchema(v any, schemas members) string {
	if name, ok := v.(string); ok {
		return name
	}
	of := reflect.TypeOf(v)
	name := strings.ToUpper(of.Name()[:1]) + of.Name()[1:]
	s, err := jsonschema.ForType(of, &jsonschema.ForOptions{})
	if err != nil {
		panic(err)
	}
	if name == "Readiness" { // a caller without credentials gets one member
		s.Required = []string{"ready"}
	}
	nonNull(s)
	schemas.set(name, s)
	return name
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

// bodySchema sets the schema of a body and returns its name.
func bodySchema(takes member, schemas members) string {
	units := func(about string, min int) object {
		return object{"type": "integer", "minimum": min, "maximum": weir.MaxUnits, "description": about}
	}
	text := func(about string) object { return object{"type": "string", "description": about} }
	all := []object{
		text("the name of a policy of the file, or with limits that of an inline one"),
		{"type": "object", "additionalProperties": object{"type": "string", "minLength": 1, "maxLength": weir.MaxValueBytes}, "maxProperties": weir.MaxDimensions, "description": "a value for each dimension of the policy"},
		units("units, default 1", 0),
		{"type": "integer", "minimum": 0, "maximum": weir.MaxInstant, "description": "the instant of the grant, in microseconds since 1970"},
		text("the same instant as the answer holds it in at"),
		{"type": "string", "minLength": 1, "maxLength": weir.MaxIDBytes, "description": "an idempotency key: a retry with it is charged once"},
		units("milliseconds until the reservation expires, at most and by default the longest window; under a concurrency limit, at least the longest hold", 1),
		text("the reservation, as the answer to /v1/reserve has it"),
		units("units that were used, by default all that were reserved", 0),
		{"type": "array", "minItems": 1, "maxItems": maxChecks, "items": reference("CheckRequest"), "description": "decided in their order"},
		{"type": "boolean", "default": false, "description": "whether all checks are granted and charged or none; at most 16 limits in total"},
		text("the name of a rolling limit; may be missing if the policy has one limit"),
		{"type": "integer", "minimum": 1, "maximum": weir.MaxWindow.Milliseconds(), "description": "the span to count, milliseconds, at most the window of the limit"},
		units("units of the reservation before the extension, so that a retry is made once", 0),
		{"type": "integer", "minimum": 0, "maximum": weir.MaxWindow.Milliseconds(), "description": "the time of the block from now on, milliseconds; a running block that lasts longer stays, and 0 ends blocks"},
		{"type": "array", "maxItems": engine.MaxLimits, "items": object{"type": "string"}, "description": "the limits to block, and only their dimensions are needed; default: those that count by every dimension"},
		{"type": "array", "minItems": 1, "maxItems": engine.MaxLimits, "items": object{"type": "string"}, "description": "the limits of an inline policy, in the words of a policy file; needs --inline-policies"},
		{"type": "integer", "minimum": calls.AnyWait, "maximum": weir.MaxWindow.Milliseconds(), "description": "the longest time for which the caller may wait, milliseconds: an attempt that does not fit now is then granted from the first instant on at which it fits; at most max-wait of the policy, by default its longest window; -1 = as long as that allows"},
		units("units per window in place of those of the limit; of a bucket, its burst changes in the same ratio", 0),
		text("the end: an instant of RFC 3339, or a day, which lasts to its end in UTC; default: none"),
		{"type": "string", "minLength": 1, "maxLength": 500, "description": "a sentence for the log and for the next operator"},
		{"type": "string", "minLength": 1, "maxLength": 100, "description": "the operator"},
		{"type": "boolean", "default": false, "description": "whether max may be below the number of the policy file"},
	}
	if takes&reasonMember != 0 {
		all[1]["description"] = "values of dimensions of the policy; one may be a network such as 10.0.0.0/8"
		all[11] = text("the name of the limit; may be missing if the policy has one")
	}
	if takes == extendMembers {
		all[2] = units("further units, default 0", 0)
	}
	properties, required := object{}, []string{}
	for i, name := range memberNames {
		m := member(1) << i
		if takes&m == 0 {
			continue
		}
		properties[name] = all[i]
		always := lastMember | reservationMember | checksMember | forMember | maxMember | reasonMember | authorMember
		if m&always != 0 || m == keyMember && takes&reasonMember != 0 {
			required = append(required, name)
		}
	}
	names := map[member]string{peekMembers: "PeekRequest", countMembers: "CountRequest", recordMembers: "RecordRequest", checkMembers: "CheckRequest", refundMembers: "RefundRequest",
		reserveMembers: "ReserveRequest", settleMembers: "SettleRequest", releaseMembers: "ReleaseRequest", extendMembers: "ExtendRequest", blockMembers: "BlockRequest", batchMembers: "ChecksRequest", putOverrideMembers: "OverrideRequest", deleteOverrideMembers: "DeleteOverrideRequest"}
	body := object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	if takes&policyMember != 0 {
		body["anyOf"] = []object{{"required": []string{"policy"}}, {"required": []string{"limits"}}}
	}
	schemas.set(names[takes], body)
	return names[takes]
}

// answers are the answers in JSON: a value of the type, or the name of the schema of one that is
// written without a type; nil = no JSON.
var answers = map[string]any{
	"/v1/check":   "Decision",
	"/v1/checks":  "Decisions",
	"/v1/peek":    "Decision",
	"/v1/count":   count{},
	"/v1/record":  "Decision",
	"/v1/refund":  refund{},
	"/v1/reserve": "Reservation",
	"/v1/settle":  reserve.Settlement{},
	"/v1/release": reserve.Settlement{},
	"/v1/extend":  extension{},
	"/v1/block":   blockAnswer{},

	"GET /v1/keys/{policy}": "History",
	"/v1/keys/{policy}":     resetAnswer{},
	"/gate/{policy}":        nil,
	"/v1/reload":            reloaded{},
	"/v1/policies":          PolicyList{},
	"/v1/instances":         InstanceList{},
	"/v1/overrides":         OverrideList{},

	"GET /v1/overrides/{policy}":    OverrideList{},
	"PUT /v1/overrides/{policy}":    Override{},
	"DELETE /v1/overrides/{policy}": deletedOverride{},

	"/v1/stats":     Stats{},
	"/v1/top":       TopList{},
	"/openapi.json": "Object",
	"/livez":        liveness{},
	"/readyz":       Readiness{},
	"/metrics":      nil,
}

// TestRolesOfPaths: an unknown path, and a route without a role, is for operators.
func TestRolesOfPaths(t *testing.T) {
	for path, want := range map[string]role{
		"/v1/keys/search": operators, "/metrics": operators, "/v1/top": operators, "/v1/later": operators, "/gate/search": gates, "/gate/": gates,
		"/v1/check": decisions, "/v1/count": decisions, "/livez": probes,
	} {
		to := routeOf(path)
		if to.role != want {
			t.Errorf("%s has the role %d, want %d", path, to.role, want)
		}
	}
}
