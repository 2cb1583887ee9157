package envoy

import (
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata is what an answer says in dynamic_metadata, in the members that the
// reference has: domain, descriptors, hitsAddend and metadata, which holds what the
// rules of items that are not over have to say. A member of our own, degraded, says
// that the store could not be asked; it is there without being asked for.
func (s *Service) metadata(w *work, r *pb.RateLimitRequest) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	if w.degraded {
		fields["degraded"] = structpb.NewBoolValue(true)
	}
	if !s.options.Metadata {
		return &structpb.Struct{Fields: fields}
	}
	fields["domain"] = structpb.NewStringValue(r.Domain)
	all := make([]*structpb.Value, len(r.Descriptors))
	for i, d := range r.Descriptors {
		all[i] = describe(d)
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: all})
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(r.HitsAddend))
	}
	said := map[string]any{}
	for i := range w.items {
		it := &w.items[i]
		if it.limit != nil && it.kind != unlimited && (!it.over || it.kind == shadowed) {
			merge(said, it.limit.rule.Metadata)
		}
	}
	if len(said) > 0 {
		if v, err := structpb.NewValue(said); err == nil { // it was checked when it was read
			fields["metadata"] = v
		}
	}
	return &structpb.Struct{Fields: fields}
}

// describe says a descriptor as the reference does.
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

// merge adds what is new in src to dst. What is there stays, but maps are merged.
func merge(dst, src map[string]any) {
	for key, value := range src {
		below, isMap := value.(map[string]any)
		switch there, known := dst[key]; {
		case !known && isMap:
			c := map[string]any{} // rules are not ours to change
			merge(c, below)
			dst[key] = c
		case !known:
			dst[key] = value
		case isMap:
			if m, ok := there.(map[string]any); ok {
				merge(m, below)
			}
		}
	}
}
