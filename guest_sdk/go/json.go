package guest

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Raw is a JSON text as it was said. What comes from reading one is a slice of it, so it can be
// spliced into other JSON byte for byte.
type Raw []byte

type member struct {
	name  string
	value Raw
}

func space(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// skip tells what is behind the value at a place; -1 if there is none. The conductor has read the
// whole before, so the grammar is not checked once more.
func skip(text []byte, at int) int {
	at = space(text, at)
	if at >= len(text) {
		return -1
	}
	switch text[at] {
	case '"':
		return skipString(text, at)
	case '{', '[':
		return skipNested(text, at)
	}
	start := at
	for at < len(text) && !strings.ContainsRune(" \t\r\n,]}:", rune(text[at])) {
		at++
	}
	if at == start {
		return -1
	}
	return at
}

func skipString(text []byte, at int) int {
	for at++; ; {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return -1
		}
		end := at + quote
		slashes := 0
		for end-slashes > at && text[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		at = end + 1
	}
}

func skipNested(text []byte, at int) int {
	for depth := 0; at >= 0 && at < len(text); {
		switch text[at] {
		case '"':
			at = skipString(text, at)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return at + 1
			}
		}
		at++
	}
	return -1
}

// members reads an object. Not ok: it is none.
func members(text Raw) (found []member, ok bool) {
	at := space(text, 0)
	if at >= len(text) || text[at] != '{' {
		return nil, false
	}
	for at = space(text, at+1); at < len(text) && text[at] != '}'; {
		if text[at] == ',' {
			at = space(text, at+1)
		}
		if at >= len(text) || text[at] != '"' {
			return nil, false
		}
		end := skipString(text, at)
		if end < 0 {
			return nil, false
		}
		name, _ := Raw(text[at:end]).Text()
		at = space(text, end)
		if at >= len(text) || text[at] != ':' {
			return nil, false
		}
		start := space(text, at+1)
		if end = skip(text, start); end < 0 {
			return nil, false
		}
		found = append(found, member{name, text[start:end]})
		at = space(text, end)
	}
	return found, at < len(text)
}

// Get is what a path of names leads to, the last of repeated members; nil if there is nothing.
func (r Raw) Get(path ...string) Raw {
	for _, name := range path {
		found, _ := members(r)
		r = nil
		for _, one := range found {
			if one.name == name {
				r = one.value
			}
		}
	}
	return r
}

// Text is a string, decoded. U+FFFD stands for half an emoji (a lone surrogate). Not ok: it is none.
func (r Raw) Text() (text string, ok bool) {
	if len(r) < 2 || r[0] != '"' {
		return "", false
	}
	inside := r[1 : len(r)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return strings.ToValidUTF8(string(inside), "\ufffd"), true
	}
	return text, json.Unmarshal(r, &text) == nil
}

// IsArray tells whether it is one.
func (r Raw) IsArray() bool { return len(r) > 0 && r[0] == '[' }

const hex = "0123456789abcdef"

// Quote is a text as a JSON string. It escapes only what has to be.
func Quote(text string) Raw {
	quoted := append(make(Raw, 0, len(text)+2), '"')
	for i := 0; i < len(text); i++ {
		byte_ := text[i]
		if at := strings.IndexByte("\"\\\b\f\n\r\t", byte_); at >= 0 {
			quoted = append(quoted, '\\', "\"\\bfnrt"[at])
		} else if byte_ < ' ' {
			quoted = append(quoted, '\\', 'u', '0', '0', hex[byte_>>4], hex[byte_&15])
		} else {
			quoted = append(quoted, byte_)
		}
	}
	return append(quoted, '"')
}

// JSON puts JSON together from its parts, strings or raw.
func JSON(parts ...any) Raw {
	var made Raw
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			made = append(made, part...)
		case Raw:
			made = append(made, part...)
		}
	}
	return made
}

// TextBlock is a block of a prompt.
func TextBlock(text string) Raw {
	return JSON(`{"type":"text","text":`, Quote(text), "}")
}
