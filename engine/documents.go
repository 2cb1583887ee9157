package engine

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"
)

// Documents are small named texts that an [Engine] keeps beside the histories, such as the
// overrides that operators set while a program runs. The memory engine forgets them at the end of
// the process, as it forgets histories; weirdisk and weirredis keep them. An engine with documents
// returns them by a method:
//
//	Documents() engine.Documents
//
// Documents belong to collections, of up to MaxDocuments each. Those of this module reject input
// that [Document.Check] rejects. They are safe for concurrent use.
type Documents interface {
	// Read returns the documents of a collection that have changed after a version: an
	// earlier Changes.Version, or 0 for all.
	Read(ctx context.Context, collection string, since int64) (Changes, error)

	// Write stores d if the present document of its name has the version d.Version; 0 is
	// that of a name without one, and AnyVersion fits any. An empty Text deletes the document. It
	// returns the document as it is afterwards. Its error is ErrConflict if the version differs,
	// beside the present document, and ErrFull for a document above MaxDocuments.
	//
	// A version is greater than all earlier ones of its collection, also after a store has lost
	// some of them. It is about the instant of the change, in microseconds since 1970.
	Write(ctx context.Context, collection string, d Document) (Document, error)
}

// Bounds of documents.
const (
	// MaxDocuments is the largest number of documents of a collection.
	MaxDocuments = 100_000

	// MaxDocumentBytes is the largest number of bytes of a document, its name and its text together.
	MaxDocumentBytes = 128 << 10

	// AnyVersion, as the version of a Document to write, overwrites any other.
	AnyVersion int64 = -1
)

// ErrConflict: another caller has changed the document, so nothing was written.
var ErrConflict = errors.New("weir: the document has another version")

// Document is a small named text.
type Document struct {
	Name    string // UTF-8
	Text    string // UTF-8; "" = there is none
	Version int64  // of its last change; 0 = there is none

	// TTL is the time after which a written document disappears by itself, by the clock of the
	// store. 0 = it stays. It is 0 in documents that are read.
	TTL time.Duration
}

// Changes are the documents of a collection that have changed after some version.
type Changes struct {
	// Documents are in no order. Without Whole, those that were deleted have no Text.
	Documents []Document

	Version int64 // that of the last change; 0 = the collection never had a document
	Whole   bool  // these are all documents, because the changes alone are not known any more
}

// Check returns an [InputError] for a document that no engine can store.
func (d *Document) Check() error {
	switch {
	case d.Name == "" || !utf8.ValidString(d.Name) || !utf8.ValidString(d.Text):
		return Input("request",
			"the name or the text of a document is not UTF-8, or it has no name; change it")
	case len(d.Name)+len(d.Text) > MaxDocumentBytes:
		return Input("request", "the document has %d bytes; at most %d are allowed",
			len(d.Name)+len(d.Text), MaxDocumentBytes)
	case d.Version < AnyVersion || d.TTL < 0:
		return Input("request", "a version or a time to live of a document is below 0; "+
			"leave it out")
	}
	return nil
}
