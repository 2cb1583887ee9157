package accesslog

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// unwrap returns the line that a container wrote, without the text that its runtime adds: the prefix
// of containerd and CRI-O, such as 2026-03-05T08:00:01.5Z stdout F, or the object of Docker's
// json-file. The result is valid until the next call.
func (p *parser) unwrap(line []byte) []byte {
	if bytes.HasPrefix(line, []byte(dockerStart)) {
		if inner, ok := p.unwrapDocker(line); ok {
			return inner
		}
		return line
	}
	const longest = len("2006-01-02T15:04:05.999999999+07:00 stderr F ")
	if len(line) < len(time.DateTime) || line[4] != '-' || line[10] != 'T' {
		return line
	}
	head := line[:min(len(line), longest)]
	for _, mark := range [...]string{" stdout F ", " stderr F "} {
		if i := bytes.Index(head, []byte(mark)); i > 0 {
			return line[i+len(mark):]
		}
	}
	return line
}

const dockerStart = `{"log":"`

// unwrapDocker returns the text in an object of Docker's json-file.
func (p *parser) unwrapDocker(line []byte) (inner []byte, ok bool) {
	text := line[len(dockerStart)-1:]
	end, _ := quoteEnd(text)
	if end < 0 || !bytes.Contains(text[end:], []byte(`,"stream":"`)) {
		return nil, false
	}
	var err error
	p.inner, err = jsontext.AppendUnquote(p.inner[:0], text[:end+1])
	return bytes.TrimRight(p.inner, " \t\r\n"), err == nil
}

// objectIn returns the object that a line is, or that ends a line behind the prefix of a container
// runtime, of syslog or of a console, and the text before it. It is nil if there is none.
func objectIn(line []byte) (object, before []byte) {
	if line[0] == '{' {
		return line, nil
	}
	if line[len(line)-1] != '}' {
		return nil, nil
	}
	for i, c := range line {
		isBegin := c == '{' && (line[i-1] == ' ' || line[i-1] == '\t')
		if isBegin && bytes.TrimLeft(line[i+1:], " ")[0] == '"' { // a } ends the line
			return line[i:], line[:i-1]
		}
	}
	return nil, nil
}

// consoleInstant reads the time of a line of Caddy's console, which is UTC. It stands before the
// first tab, behind the prefix of compose if there is one.
func consoleInstant(before []byte) (int64, error) {
	const layout = "2006/01/02 15:04:05.000"
	head, _, _ := bytes.Cut(before, []byte("\t"))
	if len(head) < len(layout) {
		return 0, errNoTime
	}
	t, err := time.Parse(layout, string(head[len(head)-len(layout):]))
	if err != nil {
		return 0, errNoTime
	}
	return inRange(t.UnixMicro())
}

// accessLogger begins the names of the loggers of accesses of Caddy. Others write objects with a
// request, too: http.log.error has one more for each access that fails.
const accessLogger = "http.log.access"

// isOtherLogger reports whether an object of Caddy names another logger than those of accesses. In a
// line of the console the name is the third word between tabs.
func isOtherLogger(r *row, before []byte) bool {
	if i := r.find("logger"); i >= 0 {
		return !bytes.HasPrefix(r.values[i].text, []byte(accessLogger))
	}
	words := bytes.SplitN(before, []byte("\t"), 4)
	if len(words) < 4 {
		return false
	}
	isNamed := bytes.HasPrefix(words[2], []byte("http."))
	return isNamed && !bytes.HasPrefix(words[2], []byte(accessLogger))
}
