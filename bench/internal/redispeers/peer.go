package redispeers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/peers"
)

// Limiter decides for one limit over any number of keys. It is safe for
// concurrent use.
type Limiter interface {
	// Allow reports whether key may act now, and counts the act if so.
	Allow(ctx context.Context, key string) (bool, error)
	Close()
}

// Peer is one contestant.
type Peer struct {
	peers.Peer // without New

	// Open returns a limiter of limit acts per window for each key, on the server
	// at addr.
	Open func(addr string, limit int, window time.Duration) (Limiter, error)
}

type kind = peers.Kind

const (
	log   = peers.RollingLog
	grid  = kind("log on a grid")
	fixed = peers.FixedWindow
)

// All returns every contestant, the yardstick first.
func All() []Peer {
	all := append([]Peer{redisRate()}, weirPeers()...)
	all = append(all, ulule(), throttledGCRA(), httprateRedis(), rueidisLimiter(), twoCountersPeer(), randomMemberPeer())
	for _, a := range algorithms() {
		all = append(all, a.peer())
	}
	return all
}

// Named returns the contestant of that name, or an error that lists the names.
func Named(name string) (Peer, error) {
	all := All()
	if i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return Peer{}, fmt.Errorf("no contestant %q; there are %s", name, strings.Join(names, ", "))
}

// Forms returns the forms, which are measured without a client; the yardstick first.
func Forms() []Form {
	all := append([]Form{redisRateForm()}, weirForms()...)
	all = append(all, randomMemberForm())
	for _, a := range algorithms() {
		all = append(all, a.form())
	}
	return all
}

// FormNamed returns the form of that name, or an error.
func FormNamed(name string) (Form, error) {
	all := Forms()
	if i := slices.IndexFunc(all, func(f Form) bool { return f.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Form{}, fmt.Errorf("no form %q", name)
}

// limiter is a Limiter that is two functions.
type limiter struct {
	allow func(ctx context.Context, key string) (bool, error)
	close func() error
}

func (l *limiter) Allow(ctx context.Context, key string) (bool, error) { return l.allow(ctx, key) }
func (l *limiter) Close()                                              { l.close() }

// own is a contestant written in this module.
func own(name string, k kind, note string, open func(addr string, limit int, window time.Duration) (Limiter, error)) Peer {
	return Peer{Peer: peers.Peer{Name: name, Kind: k, Note: note}, Open: open}
}

// client returns a go-redis client with its usual settings.
func client(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
