// Package documents keeps documents (engine.Documents) in the memory of a process. weir.Memory has
// no more than that, and weirdisk writes each change to a file.
//
// All collections have one lock, which is held while a change is written to a disk. Operators
// change documents seldom, and no decision reads them.
package documents

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

// recentChanges is the number of changes of a collection that a reader can fetch without the rest.
const recentChanges = 256

// Store holds collections of documents. The zero Store is empty. It is safe for concurrent use.
type Store struct {
	// Save makes a change durable; nil = nothing does. all returns every document with the change. It
	// is called with the lock held. A change is not made if it fails.
	Save func(changed *Stored, all func() []Stored) error

	mu          sync.Mutex // protects the following
	collections map[string]*collection
	unsure      bool // since an ErrOutcomeUnknown of Save, all calls of it have failed
}

// Stored is a document of a collection, or the change that has deleted it, which has no text.
type Stored struct {
	Collection string `json:"collection"`
	Name       string `json:"name"`
	Text       string `json:"text,omitempty"`
	Version    int64  `json:"version"`
	Until      int64  `json:"until,omitempty"` // its end, microseconds since 1970; 0 = it stays
}

type collection struct {
	version int64 // that of the last change
	byName  map[string]*Stored
	recent  []change // the last changes, oldest first
	nextEnd int64    // no document ends earlier; microseconds since 1970, 0 = not known
}

// change is one change of a collection.
type change struct {
	version int64
	name    string
}

// Load makes a change that was saved, in the order in which it was made. Call it before all others.
func (s *Store) Load(d Stored) {
	c := s.collection(d.Collection)
	c.set(d.Name, &d)
	c.version = max(c.version, d.Version)
}

// WithLock calls do with the lock of Save. all returns every document.
func (s *Store) WithLock(do func(all func() []Stored)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.all)
}

// Len returns the number of documents of all collections, also of those that have ended and no sweep
// has removed yet.
func (s *Store) Len() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		n += len(c.byName)
	}
	return n
}

// collection returns the collection of a name, which is made if need be.
func (s *Store) collection(name string) *collection {
	if s.collections == nil {
		s.collections = map[string]*collection{}
	}
	c := s.collections[name]
	if c == nil {
		c = &collection{byName: map[string]*Stored{}}
		s.collections[name] = c
	}
	return c
}

// Read is that of [engine.Documents].
func (s *Store) Read(ctx context.Context, of string, since int64) (engine.Changes, error) {
	if ctx == nil {
		return engine.Changes{}, misuse.ErrNoContext
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, now := s.collection(of), time.Now().UnixMicro()
	changes := engine.Changes{Version: c.version}
	if since == c.version {
		return changes, nil
	}
	last := slices.IndexFunc(c.recent, func(x change) bool { return x.version == since })
	if last < 0 {
		changes.Whole = true
		for name := range c.byName {
			if d := c.document(name, now); d.Text != "" {
				changes.Documents = append(changes.Documents, d)
			}
		}
		return changes, nil
	}
	listed := map[string]bool{}
	for _, x := range c.recent[last+1:] {
		if !listed[x.name] {
			listed[x.name] = true
			changes.Documents = append(changes.Documents, c.document(x.name, now))
		}
	}
	return changes, nil
}

// document returns the document of a name at an instant, in microseconds since 1970. Without one it
// has no text and no version.
func (c *collection) document(name string, now int64) engine.Document {
	d := c.byName[name]
	if d == nil || d.Until > 0 && d.Until <= now {
		return engine.Document{Name: name}
	}
	return engine.Document{Name: name, Text: d.Text, Version: d.Version}
}

// Write is that of [engine.Documents].
func (s *Store) Write(ctx context.Context, of string, d engine.Document) (engine.Document, error) {
	if ctx == nil {
		return engine.Document{}, misuse.ErrNoContext
	}
	if err := d.Check(); err != nil {
		return engine.Document{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, now := s.collection(of), time.Now().UnixMicro()
	c.sweep(now)
	present := c.document(d.Name, now)
	switch {
	case d.Version != engine.AnyVersion && d.Version != present.Version:
		return present, engine.ErrConflict
	case d.Text == "" && present.Text == "" && !s.unsure:
		return present, nil // there is nothing to delete
	case present.Text == "" && len(c.byName) >= engine.MaxDocuments:
		return present, fmt.Errorf("%w: %d documents are there; delete some",
			engine.ErrFull, len(c.byName))
	}
	next := &Stored{
		Collection: of,
		Name:       d.Name,
		Text:       d.Text,
		Version:    max(c.version+1, now),
		Until:      endOf(d.TTL, now),
	}
	if err := s.replace(c, next); err != nil {
		return present, err
	}
	return c.document(d.Name, now), nil
}

// sweep removes documents that have ended. It visits them only if one may have.
func (c *collection) sweep(now int64) {
	if now < c.nextEnd {
		return
	}
	c.nextEnd = math.MaxInt64
	for name, d := range c.byName {
		switch {
		case d.Until == 0: // it stays
		case d.Until <= now:
			delete(c.byName, name)
		default:
			c.nextEnd = min(c.nextEnd, d.Until)
		}
	}
}

// replace stores a document in place of that of its name, or deletes it if it has no text. After an
// error of Save nothing has changed.
func (s *Store) replace(c *collection, next *Stored) error {
	before, version := c.byName[next.Name], c.version
	c.set(next.Name, next)
	c.version = next.Version
	if s.Save != nil {
		err := s.Save(next, s.all)
		if err != nil {
			c.set(next.Name, before)
			c.version = version
			s.unsure = s.unsure || errors.Is(err, engine.ErrOutcomeUnknown)
			return err
		}
		s.unsure = false
	}
	if next.Until > 0 {
		c.nextEnd = min(c.nextEnd, next.Until)
	}
	if len(c.recent) == recentChanges {
		c.recent = slices.Delete(c.recent, 0, recentChanges/2)
	}
	c.recent = append(c.recent, change{next.Version, next.Name})
	return nil
}

// set stores a document, or deletes that of the name without one or without a text.
func (c *collection) set(name string, d *Stored) {
	if d == nil || d.Text == "" {
		delete(c.byName, name)
		return
	}
	c.byName[name] = d
}

// all returns the documents of all collections. If the last change of one was a deletion, a deletion
// without a name keeps its version.
func (s *Store) all() []Stored {
	var all []Stored
	for name, c := range s.collections {
		newest := int64(0)
		for _, d := range c.byName {
			all = append(all, *d)
			newest = max(newest, d.Version)
		}
		if newest < c.version {
			all = append(all, Stored{Collection: name, Version: c.version})
		}
	}
	return all
}

// endOf returns the instant at which a document with a time to live ends; 0 = it stays.
func endOf(ttl time.Duration, now int64) int64 {
	if ttl == 0 {
		return 0
	}
	return now + min(max(ttl.Microseconds(), 1), math.MaxInt64-now)
}

// Of returns the documents of an engine, also inside weir.Observe. The error of an engine without
// any has the next step.
func Of(e engine.Engine) (engine.Documents, error) {
	for {
		if keeper, ok := e.(interface{ Documents() engine.Documents }); ok {
			return keeper.Documents(), nil
		}
		around, ok := e.(interface{ Observed() engine.Engine })
		if !ok {
			break
		}
		e = around.Observed()
	}
	return nil, engine.Input("request",
		"the engine %T keeps no documents; use weir.Memory, weirdisk or weirredis", e)
}

// Read reads documents of e.
func Read(
	ctx context.Context, e engine.Engine, of string, since int64,
) (engine.Changes, error) {
	d, err := Of(e)
	if err != nil {
		return engine.Changes{}, err
	}
	return d.Read(ctx, of, since)
}

// Write writes a document of e.
func Write(
	ctx context.Context, e engine.Engine, of string, d engine.Document,
) (engine.Document, error) {
	to, err := Of(e)
	if err != nil {
		return engine.Document{}, err
	}
	return to.Write(ctx, of, d)
}

// Failing returns documents of which every call fails, such as those of a zero engine.
func Failing(err error) engine.Documents { return failing{err} }

type failing struct{ err error }

func (f failing) Read(ctx context.Context, _ string, _ int64) (engine.Changes, error) {
	return engine.Changes{}, f.errorOf(ctx)
}

func (f failing) Write(
	ctx context.Context, _ string, _ engine.Document,
) (engine.Document, error) {
	return engine.Document{}, f.errorOf(ctx)
}

func (f failing) errorOf(ctx context.Context) error {
	if ctx == nil {
		return misuse.ErrNoContext
	}
	return f.err
}
