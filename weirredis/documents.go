package weirredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/misuse"
)

// Documents returns the documents beside the histories. Their times to live are by the clock of the
// server. All documents of a collection are read in pages, so that no call keeps the server busy
// for long.
func (e *Engine) Documents() engine.Documents { return collections{e} }

// collections are the documents of an engine.
type collections struct{ engine *Engine }

// documentsKey returns the key of a collection: "weir3:{}overrides". No history has it, because no
// policy has an empty name. It has no hash tag, so a collection is in one slot of a Cluster.
func (e *Engine) documentsKey(collection string) string {
	return e.prefix + layout + "}" + collection
}

// Write is that of [engine.Documents].
func (c collections) Write(
	ctx context.Context, collection string, d engine.Document,
) (engine.Document, error) {
	e := c.engine
	if e == nil || e.conn == nil || ctx == nil {
		return engine.Document{}, misuse.Error(ctx, "weirredis.New")
	}
	if err := d.Check(); err != nil {
		return engine.Document{}, err
	}
	ttl := d.TTL.Microseconds()
	if d.TTL > 0 {
		ttl = max(ttl, 1)
	}
	parts, err := e.evalDocuments(ctx, collection, true, 3, "write",
		strconv.FormatInt(d.Version, 10), strconv.FormatInt(ttl, 10),
		strconv.Itoa(engine.MaxDocuments), d.Name, d.Text)
	if err != nil {
		return engine.Document{}, err
	}
	now := engine.Document{Name: d.Name, Text: parts[2]}
	if now.Version, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return engine.Document{}, e.badDocuments(parts)
	}
	switch parts[0] {
	case "stored":
		return now, nil
	case "conflict":
		return now, engine.ErrConflict
	case "full":
		return now, fmt.Errorf("%w: %d documents are there; delete some",
			engine.ErrFull, engine.MaxDocuments)
	}
	return engine.Document{}, e.badDocuments(parts)
}

// maxScans bounds the scans of a collection that changes meanwhile.
const maxScans = 8

// errScans is the error of a collection of which maxScans scans were not enough.
var errScans = fmt.Errorf("%w: weirredis: the documents change faster than they can be read; "+
	"try again", engine.ErrUnavailable)

// Read is that of [engine.Documents].
func (c collections) Read(
	ctx context.Context, collection string, since int64,
) (engine.Changes, error) {
	e := c.engine
	if e == nil || e.conn == nil || ctx == nil {
		return engine.Changes{}, misuse.Error(ctx, "weirredis.New")
	}
	for range maxScans {
		first, err := e.readPage(ctx, collection, since, "")
		if err != nil || !first.Whole || first.next == "0" {
			return first.Changes, err
		}
		all := first.byName()
		for cursor := first.next; cursor != "0"; {
			page, err := e.readPage(ctx, collection, since, cursor)
			if err != nil {
				return engine.Changes{}, err
			}
			cursor = page.next
			page.addTo(all)
		}
		// Pages are of several instants. A page holds what had changed when it was read, so the
		// changes since the first one complete them.
		rest, err := e.readPage(ctx, collection, first.Version, "")
		if err != nil {
			return engine.Changes{}, err
		}
		if rest.Whole {
			continue
		}
		rest.addTo(all)
		changes := engine.Changes{Version: rest.Version, Whole: true}
		for _, d := range all {
			changes.Documents = append(changes.Documents, d)
		}
		return changes, nil
	}
	return engine.Changes{}, errScans
}

// page is a part of a collection.
type page struct {
	engine.Changes
	next string // the cursor of the next page; "0" = this is the last one
}

// byName returns the documents of a page by their names.
func (p *page) byName() map[string]engine.Document {
	all := map[string]engine.Document{}
	p.addTo(all)
	return all
}

// addTo makes the changes of a page.
func (p *page) addTo(all map[string]engine.Document) {
	for _, d := range p.Documents {
		if d.Text == "" {
			delete(all, d.Name)
		} else {
			all[d.Name] = d
		}
	}
}

// readPage reads the changes since a version or, if they are not known any more, a page of all
// documents.
func (e *Engine) readPage(
	ctx context.Context, collection string, since int64, cursor string,
) (p page, err error) {
	parts, err := e.evalDocuments(ctx, collection, false, 3, "read",
		strconv.FormatInt(since, 10), cursor)
	if err != nil {
		return p, err
	}
	if p.Version, err = strconv.ParseInt(parts[0], 10, 64); err != nil || len(parts)%3 != 0 {
		return p, e.badDocuments(parts)
	}
	p.Whole = parts[1] == "1"
	p.next = parts[2]
	for rest := parts[3:]; len(rest) > 0; rest = rest[3:] {
		version, err := strconv.ParseInt(rest[1], 10, 64)
		if err != nil {
			return p, e.badDocuments(parts)
		}
		p.Documents = append(p.Documents,
			engine.Document{Name: rest[0], Text: rest[2], Version: version})
	}
	return p, nil
}

// evalDocuments runs the script on a collection and returns the parts of its reply, at least so
// many.
func (e *Engine) evalDocuments(
	ctx context.Context, collection string, writes bool, least int, args ...string,
) ([]string, error) {
	key := e.documentsKey(collection)
	text, err := e.eval(ctx, documentsScript, []string{key}, args)
	if err != nil {
		return nil, e.callError(ctx, err, nil, []string{key}, writes)
	}
	parts, ok := cutParts(text)
	if !ok || len(parts) < least {
		return nil, e.badDocuments([]string{text})
	}
	return parts, nil
}

// badDocuments returns the error of a reply that is none of the script.
func (e *Engine) badDocuments(parts []string) error {
	return &StoreError{Address: e.address(), Err: badReply{len(strings.Join(parts, ""))}}
}

// cutParts returns the parts of a reply, each of which stands behind its length. It reports false
// for another text.
func cutParts(text string) (parts []string, ok bool) {
	for text != "" {
		length, rest, found := strings.Cut(text, ":")
		n, err := strconv.Atoi(length)
		if !found || err != nil || n < 0 || n > len(rest) {
			return nil, false
		}
		parts = append(parts, rest[:n])
		text = rest[n:]
	}
	return parts, true
}
