package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/store"
)

// storeFlag adds --store.
func storeFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "store", "memory",
		"where histories live: memory (of this process, gone when it ends) or a `URL`: redis://host:port, redis+sentinel://…, redis+cluster://…, rediss://… for TLS")
}

// openStore opens the store a user named.
func openStore(name string) (*store.Store, error) {
	s, err := store.Open(name)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, store.ErrURL):
		return nil, usage("weir serve -h shows what --store takes", "%w", err)
	}
	return nil, &failure{code: exitStore, err: err}
}

// guarded is the store's engine as serve uses it: with a store that can be out, the
// server answers within a budget, by what each policy says of when-store-is-down.
// instances is how many servers share it.
func guarded(s *store.Store, instances int) weir.Engine {
	if !s.Shared {
		return s.Engine
	}
	return weir.Fallback(s.Engine, weir.FailClosed, weir.Instances(instances))
}
