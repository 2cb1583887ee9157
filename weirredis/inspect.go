package weirredis

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// inspect decides a peek and sets the histories that it reads. One script reads the keys and the
// server's clock, and writes nothing. It reads whole histories: 20,000 entries occupy the server
// for a millisecond, and a million for 50. A memory engine gets the same histories and decides:
// every engine decides alike. The reservations of holds are not known, because a key of Redis is
// found by its whole name alone.
func (e *Engine) inspect(ctx context.Context, peek *engine.Call) {
	copied, now, err := e.copyHistories(ctx, peek)
	if err != nil {
		peek.Fail(err)
		return
	}
	c := *peek
	if !c.Given {
		c.At, c.Given = now, true
	}
	copied.Decide(&c)
	peek.Result, peek.Err = c.Result, c.Err // it has set the States and the Histories
}

// copyHistories returns a memory with the histories of a call, and the server's clock.
func (e *Engine) copyHistories(
	ctx context.Context, c *engine.Call,
) (m *memory.Memory, now int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	keys, joined := e.keysOf(c.Rules, &c.Key)
	if keys == nil {
		keys = []string{joined}
	}
	text, err := e.eval(ctx, inspectScript, keys, nil)
	var hashes []map[string]string
	if err == nil {
		now, hashes, err = cutHashes(text, len(keys))
	}
	if err != nil {
		return nil, 0, e.callError(ctx, err, c, keys, false)
	}
	m = memory.New(memory.Options{})
	for i, hash := range hashes {
		if err := restore(m, c, i, hash); err != nil {
			return nil, 0, e.callError(ctx, err, c, keys[i:i+1], false)
		}
	}
	return m, now, nil
}

// cutHashes reads the reply of lua/inspect.lua: the server's clock, and the fields of each key.
func cutHashes(text string, keys int) (now int64, hashes []map[string]string, err error) {
	r := replyReader{text: text}
	if now = r.int56(); now > engine.MaxInstant {
		r.isBad = true
	}
	for range keys {
		hash := map[string]string{}
		for range r.size() {
			if r.isBad {
				break
			}
			name := r.text32()
			hash[name] = r.text32()
		}
		hashes = append(hashes, hash)
	}
	if r.isBad || r.text != "" {
		return 0, nil, badReply{len(text)}
	}
	return now, hashes, nil
}

// replyReader reads numbers and texts from the beginning of a text.
type replyReader struct {
	text  string
	isBad bool // the text was too short
}

// cut returns the next n bytes, or as many zeros if there are fewer.
func (r *replyReader) cut(n int) string {
	if n > len(r.text) {
		r.isBad, r.text = true, ""
		return string(make([]byte, min(n, 8)))
	}
	part := r.text[:n]
	r.text = r.text[n:]
	return part
}

// int56 reads a number of seven bytes.
func (r *replyReader) int56() int64 { return int56At(r.cut(7), 0) }

// size reads a number of four bytes.
func (r *replyReader) size() int { return int(binary.BigEndian.Uint32([]byte(r.cut(4)))) }

// text32 reads a text behind its length of four bytes.
func (r *replyReader) text32() string { return r.cut(r.size()) }

// restore makes the history of a limit in a memory as it is stored in a hash. An error is a
// ReplyError in the words of the scripts.
func restore(m *memory.Memory, c *engine.Call, limit int, hash map[string]string) error {
	head, ok := hash["h"]
	if !ok {
		return nil
	}
	if strings.HasPrefix(head, formBlock) {
		block, rest, err := cutBlock(head)
		if err != nil {
			return err
		}
		change := memory.NewChange(memory.Block, c.Rules, limit, &c.Key)
		change.At, change.End = block.begin, block.begin+block.length
		if err := m.Apply(&change); err != nil {
			return errDamaged
		}
		if head = rest; head == "" {
			return nil
		}
	}
	change := memory.NewChange(memory.Replace, c.Rules, limit, &c.Key)
	if strings.HasPrefix(head, formAhead) {
		var err error
		if change.Ahead, head, err = cutAhead(head); err != nil {
			return err
		}
	}
	read := readEntries
	if c.Rules.Limits[limit].Kind == engine.KindBucket {
		read = readBucket
	}
	if err := read(&change, head, hash); err != nil {
		return err
	}
	if err := m.Apply(&change); err != nil {
		return errDamaged
	}
	return nil
}
