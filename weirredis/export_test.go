package weirredis

// Sizes are the sizes of the pieces that histories are cut into.
type Sizes = sizes

// WithSizes makes the engine cut histories into pieces of such sizes, so that a
// test meets long histories after a few entries.
func WithSizes(z Sizes) Option {
	s := must(makeScripts(source, z))
	return func(o *options) { o.scripts = s }
}
