package store

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/weirlimit/weir/weirredis"
)

// identityKey holds the identity of a store on Redis.
const identityKey = "weir2:store"

//go:embed identity.lua
var identityText string

var identityScript = newIdentityScript()

func newIdentityScript() *weirredis.Script {
	sum := sha1.Sum([]byte(identityText))
	return &weirredis.Script{Name: "identity", Text: identityText, SHA1: hex.EncodeToString(sum[:])}
}

// Identity returns a name that all processes on this store share, and no other store
// has. It changes when the store loses its data. The error wraps weir.ErrUnavailable. It
// is for every store but memory.
func (s *Store) Identity(ctx context.Context) (string, error) {
	if s.Disk != nil {
		return s.Disk.Identity(), nil
	}
	id, err := s.Conn.Eval(ctx, identityScript, []string{identityKey}, []string{rand.Text()})
	if err != nil {
		e := &weirredis.StoreError{Err: err}
		if a, ok := s.Conn.(fmt.Stringer); ok {
			e.Address = a.String()
		}
		return "", e
	}
	return id, nil
}
