package envoy

import (
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata returns the dynamic_metadata of an answer. Its members are those of the
// reference: domain, descriptors, hitsAddend and metadata, which merges the metadata of
// the rules of items that are not over. The members degraded and cached are additions;
// degraded is present without the option when a fallback decided.
func (s *Service) metadata(c *call) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	if c.degraded {
		fields["degraded"] = structpb.NewBoolValue(true)
	}
	if !s.options.Metadata {
		return &structpb.Struct{Fields: fields}
	}
	if c.cached {
		fields["cached"] = structpb.NewBoolValue(true)
	}
	r := c.request
	fields["domain"] = structpb.NewStringValue(r.Domain)
	all := make([]*structpb.Value, len(r.Descriptors))
	for i, d := range r.Descriptors {
		all[i] = describe(d)
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: all})
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(r.HitsAddend))
	}
	merged := map[string]any{}
	for i := range c.items {
		it := &c.items[i]
		if it.limit != nil && it.kind != unlimited && (!it.over || it.kind == shadowed) {
			merge(merged, it.limit.rule.Metadata)
		}
	}
	if len(merged) > 0 {
		if v, err := structpb.NewValue(merged); err == nil { // the configuration was validated
			fields["metadata"] = v
		}
	}
	return &structpb.Struct{Fields: fields}
}

// describe returns a descriptor in the form of the reference.
func describe(d *common.RateLimitDescriptor) *structpb.Value {
	entries := make([]*structpb.Value, len(d.Entries))
	for i, e := range d.Entries {
		entries[i] = structpb.NewStringValue(e.Key + "=" + e.Value)
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.Limit != nil {
		fields["limit"] = structpb.NewStringValue(d.Limit.String())
	}
	if d.HitsAddend != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.HitsAddend.Value))
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

// merge adds the members of src that dst lacks. Maps are merged; src is not changed.
func merge(dst, src map[string]any) {
	for key, value := range src {
		below, isMap := value.(map[string]any)
		switch there, known := dst[key]; {
		case !known && isMap:
			m := map[string]any{} // a copy: rules never change
			merge(m, below)
			dst[key] = m
		case !known:
			dst[key] = value
		case isMap:
			if m, ok := there.(map[string]any); ok {
				merge(m, below)
			}
		}
	}
}
