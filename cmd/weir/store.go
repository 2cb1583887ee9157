package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
)

// storeFlag adds --store.
func storeFlag(cmd *cobra.Command, store *string) {
	cmd.Flags().StringVar(store, "store", "memory", "where histories live: memory (of this process, gone when it ends)")
}

// openStore opens the store a user named. close gives its connections back.
func openStore(store string) (engine weir.Engine, close func() error, err error) {
	if store == "memory" {
		return weir.NewMemory(), func() error { return nil }, nil
	}
	scheme, _, isURL := strings.Cut(store, "://")
	if !isURL {
		return nil, nil, usage("write --store memory", "unknown store %q", store)
	}
	return nil, nil, usage("write --store memory; no other store is supported", "unknown kind of store %q", scheme+"://")
}
