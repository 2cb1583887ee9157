package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// manPages returns the pages of the manual: weir.1, and one for each verb. They are made from
// the help that weir prints. The generator of cobra was the alternative; it would bring a reader
// of Markdown into the modules of the program.
func manPages(s *source, weir func(args ...string) (string, error)) (map[string][]byte, error) {
	root, err := weir("help")
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{}
	verbs := verbsOf(root)
	if len(verbs) == 0 {
		return nil, fmt.Errorf("weir help lists no verbs")
	}
	pages["weir.1"] = manPage(s, "weir", "an exact rolling-window rate limiter", root, verbs)
	for _, verb := range verbs {
		help, err := weir("help", verb.name)
		if err != nil {
			return nil, err
		}
		if strings.Contains(help, "-h --all shows") {
			if help, err = weir(verb.name, "-h", "--all"); err != nil {
				return nil, err
			}
		}
		for _, sub := range verbsBelow(verb.name, help) {
			more, err := weir("help", verb.name, sub)
			if err != nil {
				return nil, err
			}
			help += "\n\n" + subHeading + "weir " + verb.name + " " + sub + ":\n" + more
		}
		pages["weir-"+verb.name+".1"] = manPage(s, "weir-"+verb.name, strings.ToLower(verb.short[:1])+verb.short[1:], help, verbs)
	}
	return pages, nil
}

// A verb is a command of weir.
type verb struct{ name, short string }

var verbLine = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}([A-Z].*)$`)

// verbsOf returns the verbs that a help lists.
func verbsOf(help string) (all []verb) {
	for _, m := range verbLine.FindAllStringSubmatch(help, -1) {
		all = append(all, verb{m[1], m[2]})
	}
	return all
}

// verbsBelow returns the verbs of a verb: check and print of `weir config check|print`.
func verbsBelow(name, help string) []string {
	m := regexp.MustCompile(`(?m)^  weir ` + name + ` ([a-z]+(?:\|[a-z]+)+) .*\n(?:.*\n)*weir ` + name + ` VERB -h explains`).
		FindStringSubmatch(help + "\n")
	if m == nil {
		return nil
	}
	return strings.Split(m[1], "|")
}

// subHeading marks the beginning of the help of a verb's own verb, such as check of config, in
// the help of that verb.
const subHeading = "\x00"

// manPage writes a help in the language of man. Text before the first heading is its description.
func manPage(s *source, name, short, help string, verbs []verb) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"weir %s\" \"Weir\"\n", strings.ToUpper(name), s.time.Format("2006-01-02"), s.number())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", name, roff(short))
	for i, part := range regexp.MustCompile(`(?m)^`+subHeading).Split(help, -1) {
		heading := ".SH"
		if i > 0 {
			title, rest, _ := strings.Cut(part, ":\n")
			fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(title))
			heading, part = ".SS", rest
		}
		for _, sec := range sections(part) {
			sec.write(&b, heading)
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	var others []string
	for _, page := range append([]string{"weir"}, verbPages(verbs)...) {
		if page != name {
			others = append(others, ".BR "+page+" (1)")
		}
	}
	b.WriteString(strings.Join(others, ",\n") + "\n")
	return []byte(b.String())
}

func verbPages(verbs []verb) (names []string) {
	for _, v := range verbs {
		names = append(names, "weir-"+v.name)
	}
	return names
}

// A section is a heading of a help with the lines below it.
type section struct {
	title string // "" before the first heading
	lines []string
}

var (
	headingLine = regexp.MustCompile(`^([A-Z][^.]*):$`)
	lastLine    = regexp.MustCompile(`^weir .*-h (explains|--all shows)`)
	itemLine    = regexp.MustCompile(`^ {2,6}(\S.*?)(?: {2,}(\S.*))?$`)
)

// sections divides a help at its headings. A line that ends in a colon within the description is
// followed by an empty line or by indented text of another kind, and stays in the description.
func sections(help string) (all []section) {
	lines := strings.Split(help, "\n")
	current := section{}
	for i, line := range lines {
		isHeading := headingLine.MatchString(line) && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ")
		if lastLine.MatchString(line) {
			continue
		}
		if isHeading {
			all = append(all, current)
			current = section{title: strings.TrimSuffix(line, ":")}
			continue
		}
		current.lines = append(current.lines, line)
	}
	all = append(all, current)
	for i := range all {
		all[i].lines = trimEmpty(all[i].lines)
	}
	usage := slices.IndexFunc(all, func(s section) bool { return s.title == "Usage" })
	if usage == 1 { // a manual has the synopsis first
		all[0], all[1] = all[1], all[0]
	}
	return slices.DeleteFunc(all, func(s section) bool { return len(s.lines) == 0 })
}

func trimEmpty(lines []string) []string {
	isText := func(line string) bool { return line != "" }
	first := slices.IndexFunc(lines, isText)
	if first < 0 {
		return nil
	}
	for lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines[first:]
}

// write writes a section below a heading macro.
func (sec section) write(b *strings.Builder, macro string) {
	title := sec.title
	switch title {
	case "":
		title = "Description"
	case "Usage":
		title = "Synopsis"
	}
	fmt.Fprintf(b, "%s %s\n", macro, strings.ToUpper(title))
	switch sec.title {
	case "":
		writeText(b, sec.lines)
	case "Usage", "Examples":
		b.WriteString(".nf\n")
		for _, line := range sec.lines {
			b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
		}
		b.WriteString(".fi\n")
	default:
		writeItems(b, sec.lines)
	}
}

// writeText writes paragraphs, and indented lines as they stand.
func writeText(b *strings.Builder, lines []string) {
	literal := false
	for i, line := range lines {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case line == "" && !literal && i+1 < len(lines) && !strings.HasPrefix(lines[i+1], "  "):
			b.WriteString(".PP\n")
		case line == "":
		case indented && !literal:
			b.WriteString(".PP\n.RS 4\n.nf\n" + roff(line[2:]) + "\n")
		case literal && !indented:
			b.WriteString(".fi\n.RE\n.PP\n" + roff(line) + "\n")
		default:
			b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
		}
		if line != "" {
			literal = indented
		}
	}
	if literal {
		b.WriteString(".fi\n.RE\n")
	}
}

// writeItems writes a list of flags or verbs with their texts.
func writeItems(b *strings.Builder, lines []string) {
	for _, line := range lines {
		if m := itemLine.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(b, ".TP\n.B %s\n", roff(m[1]))
			line = m[2]
		}
		if text := strings.TrimSpace(line); text != "" {
			b.WriteString(roff(text) + "\n")
		}
	}
}

// roff escapes a line of text.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`,
		"…", "...", "−", `\-`, "≥", `\(>=`, "≤", `\(<=`, "±", `\(+-`).Replace(line)
	if strings.HasPrefix(line, ".") {
		return `\&` + line
	}
	return line
}
