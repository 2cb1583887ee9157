package store

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/weirdisk"
)

// fileScheme begins the name of a directory.
const fileScheme = "file:"

// directory is a parsed name of the form file:DIR[?sync=MODE&access=any].
type directory struct {
	path      string
	mode      string // of syncing, as it is written
	sync      weirdisk.Option
	anyAccess bool
}

// The largest interval of syncing that a name accepts. A power failure may lose as much.
const maxSync = time.Minute

// parseFile parses the part of a name after file:.
func parseFile(text string) (d directory, err error) {
	path, query, _ := strings.Cut(text, "?")
	if rest, slashes := strings.CutPrefix(path, "//"); slashes {
		if !strings.HasPrefix(rest, "/") {
			return d, fmt.Errorf("%w: file://%s names another machine; write file:/%s for a directory of this one", ErrURL, rest, rest)
		}
		path = rest
	}
	if path, err = url.PathUnescape(path); err != nil {
		return d, fmt.Errorf("%w: file:%s holds a %% that is not followed by two hex digits; write %%25 for a %%", ErrURL, text)
	}
	if path == "" {
		return d, fmt.Errorf("%w: file: needs a directory; write file:/var/lib/weir", ErrURL)
	}
	if strings.HasPrefix(path, "~/") || path == "~" {
		return d, fmt.Errorf("%w: file:%s: a shell does not replace ~ here; write file:$HOME%s", ErrURL, path, path[1:])
	}
	d = directory{path: filepath.Clean(path), mode: "100ms", sync: weirdisk.SyncEvery(100 * time.Millisecond)}
	if err := d.query(query); err != nil {
		return d, fmt.Errorf("%w: file:%s: %w", ErrURL, d.path, err)
	}
	return d, nil
}

// query reads the parameters after a question mark.
func (d *directory) query(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("the text after the ? is not name=value; write ?sync=always")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch all := values[name]; {
		case name != "sync" && name != "access":
			return fmt.Errorf("there is no parameter %q%s; sync= and access= are the only ones", name, didYouMean(name, "sync", "access"))
		case len(all) > 1:
			return fmt.Errorf("%s= is given twice; give it once", name)
		case name == "access" && all[0] != "any":
			return fmt.Errorf("access=%s is not access=any, which accepts a directory that others can change", all[0])
		case name == "access":
			d.anyAccess = true
		default:
			if err := d.setSync(all[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// setSync reads the mode of syncing.
func (d *directory) setSync(word string) error {
	interval, err := time.ParseDuration(word)
	switch d.mode = word; {
	case word == "always":
		d.sync = weirdisk.SyncAlways()
	case err != nil:
		return fmt.Errorf("sync=%s is not a mode%s; write sync=always, or a time such as sync=100ms", word, didYouMean(word, "always"))
	case interval < time.Millisecond || interval > maxSync:
		return fmt.Errorf("sync=%s is not within 1ms and %v; write sync=always, or a time such as sync=100ms", word, maxSync)
	default:
		d.sync = weirdisk.SyncEvery(interval)
	}
	return nil
}

// didYouMean returns a question for the nearest of some words, or "".
func didYouMean(word string, words ...string) string {
	if near := nearest.Name(word, words); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// String returns the name with the mode.
func (d *directory) String() string {
	name := fileScheme + d.path + "?sync=" + d.mode
	if d.anyAccess {
		name += "&access=any"
	}
	return name
}

// open opens the engine.
func (d *directory) open(o Options) (*Store, error) {
	options := []weirdisk.Option{d.sync, weirdisk.MaxBytes(o.MaxBytes), weirdisk.Progress(o.Progress)}
	if d.anyAccess {
		options = append(options, weirdisk.AnyAccess())
	}
	engine, err := weirdisk.Open(d.path, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRefused, d, unprefixed{err})
	}
	s := &Store{Engine: engine, Disk: engine, Name: d.String(), close: engine.Close}
	if cut := engine.Recovery(); cut.Bytes > 0 {
		s.Warnings = []string{cut.String()}
	}
	return s, nil
}

// unprefixed is an error without the name of its package, inside another one.
type unprefixed struct{ error }

func (e unprefixed) Error() string { return strings.TrimPrefix(e.error.Error(), "weirdisk: ") }
func (e unprefixed) Unwrap() error { return e.error }
