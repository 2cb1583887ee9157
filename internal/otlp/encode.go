package otlp

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/weirlimit/weir/internal/observe"
)

// The used part of the JSON form of
// opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest: ids are hexadecimal,
// 64-bit numbers are strings, enumerations are numbers.
type (
	object   = map[string]any
	spanJSON struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Flags      uint32      `json:"flags"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes"`
		Status     struct {
			Code int `json:"code,omitempty"`
		} `json:"status"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

const (
	kindServer   = 2
	statusError  = 2
	sampledFlag  = 1
	remoteKnown  = 0x100 // the next flag is valid
	parentRemote = 0x200 // the parent is of another process
)

// text returns an attribute with a string.
func text(key, v string) attribute { return attribute{key, value{String: &v}} }

// encode returns a batch in JSON.
func (t *Tracer) encode(spans []span) []byte {
	all := make([]spanJSON, len(spans))
	for i := range spans {
		all[i] = spans[i].json()
	}
	of := []attribute{text("service.name", t.config.Service)}
	scope := object{"name": "github.com/weirlimit/weir"}
	if t.config.Version != "" {
		of = append(of, text("service.version", t.config.Version))
		scope["version"] = t.config.Version
	}
	b, err := json.Marshal(object{"resourceSpans": []object{{
		"resource":   object{"attributes": of},
		"scopeSpans": []object{{"scope": scope, "spans": all}},
	}}})
	if err != nil {
		panic(err) // impossible: strings and numbers only
	}
	return b
}

// json returns the span with policy, limit, protocol and outcome. It contains no key.
func (s *span) json() spanJSON {
	j := spanJSON{
		TraceID: hex.EncodeToString(s.parent.trace[:]), SpanID: hex.EncodeToString(s.id[:]), Flags: sampledFlag | remoteKnown,
		Name: "weir.decide", Kind: kindServer,
		Start:      strconv.FormatInt(s.Began.UnixNano(), 10),
		End:        strconv.FormatInt(s.Began.Add(s.Took).UnixNano(), 10),
		Attributes: []attribute{text("weir.policy", s.Policy), text("weir.front", s.Protocol.String()), text("weir.outcome", s.Outcome.String())},
	}
	if !s.root {
		j.Parent = hex.EncodeToString(s.parent.span[:])
		j.Flags |= parentRemote
	}
	if s.Limit != "" {
		j.Attributes = append(j.Attributes, text("weir.limit", s.Limit))
	}
	if s.Degraded {
		j.Attributes = append(j.Attributes, attribute{"weir.degraded", value{Bool: &s.Degraded}})
	}
	if s.Outcome == observe.Error {
		j.Status.Code = statusError
	}
	return j
}
