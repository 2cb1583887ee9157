package fallback

import (
	"context"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/misuse"
)

const constructor = "fallback.New, around the engine of a store"

// Documents returns the documents of the store. No mode replaces them, and the timeout is that of
// each call. Of a store without documents every call is an [engine.InputError].
func (f *Engine) Documents() engine.Documents {
	if f.isZero() {
		return documents.Failing(misuse.Error(context.Background(), constructor))
	}
	d, err := documents.Of(f.engine)
	if err != nil {
		return documents.Failing(err)
	}
	return d
}
