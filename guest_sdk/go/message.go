package guest

import (
	"bytes"
	"slices"
	"strings"
)

// Side tells from where a message comes, or whereto it goes.
type Side byte

// The three sides of a proxy.
const (
	Client    Side = 'p'
	Agent     Side = 's'
	Conductor Side = 'c'
)

// Refused is the code of Fail where a component lets something not go on; -32000 would have editors
// show a login.
const Refused = "-31900"

func (s Side) other() Side {
	if s == Client {
		return Agent
	}
	return Client
}

// Message is a request or a notification in a handler's hands. A handler may wait: only later
// messages of the same session and direction wait with it. What a handler has not decided when it
// returns is passed on; so is the answer it has waited for.
type Message struct {
	Side   Side
	Method string
	ID     Raw // nil: it is a notification
	Params Raw // nil: there are none

	name    Raw // the method as it is written
	proxy   *Proxy
	lane    *lane
	wake    chan Answer
	passed  bool
	settled bool
	answer  *Answer
}

// Answer is what came of a request: a result, or an error.
type Answer struct{ Result, Error Raw }

// Reason is an error's message.
func (a Answer) Reason() string {
	text, _ := a.Error.Get("message").Text()
	return text
}

// Get is the raw JSON of what is there in the params; nil: nothing.
func (m *Message) Get(path ...string) Raw { return m.Params.Get(path...) }

// Text is a text in the params, decoded.
func (m *Message) Text(path ...string) (string, bool) { return m.Get(path...).Text() }

// Set replaces a value in the params; all other bytes stay. False: there is none.
func (m *Message) Set(value Raw, path ...string) bool {
	old := m.Get(path...)
	if old == nil {
		return false
	}
	at := m.offset(old)
	m.splice(at, at+len(old), value)
	return true
}

// SetText replaces a value in the params by a text.
func (m *Message) SetText(text string, path ...string) bool { return m.Set(Quote(text), path...) }

// Prepend puts an element in front of those of an array in the params. False: there is none.
func (m *Message) Prepend(element Raw, path ...string) bool {
	array := m.Get(path...)
	if !array.IsArray() {
		return false
	}
	if array[space(array, 1)] != ']' {
		element = JSON(element, ",")
	}
	at := m.offset(array) + 1
	m.splice(at, at, element)
	return true
}

// Preface puts a text in front of a prompt; behind one that may be a command, on a line of its own.
// False: there is no prompt.
func (m *Message) Preface(text string) bool {
	prompt := m.Get("prompt")
	if !prompt.IsArray() || beginsPlainly(prompt) {
		return m.Prepend(TextBlock(text), "prompt")
	}
	end := m.offset(prompt) + len(prompt) - 1
	m.splice(end, end, JSON(",", TextBlock("\n"+text)))
	return true
}

// isPlain tells whether a text begins so that no agent takes it for a command; what is no text does.
func isPlain(text Raw) bool {
	if len(text) < 2 || text[0] != '"' {
		return true
	}
	if text[1] == '\\' {
		return text[2] == '"'
	}
	// What is not seen, and what looks like a mark, is among what begins with these bytes.
	unseen := "\xc2\xcd\xd8\xe1\xe2\xe3\xef\xf3"
	return strings.IndexByte(" /$!#:@&~%^*+-.?\x7f"+unseen, text[1]) < 0
}

// beginsPlainly tells whether a prompt begins with a text that no agent takes for a command, or has
// none. A command must begin its prompt, and agents have marks of their own for them. What comes with it
// before its first text counts too: some agents read that first. A skill is a command in a block of its
// own.
func beginsPlainly(prompt Raw) bool {
	for at := space(prompt, 1); prompt[at] != ']'; {
		end := skip(prompt, at)
		block := prompt[at:end]
		text := block.Get("text")
		if !isPlain(text) || !isPlain(block.Get("resource", "text")) {
			return false
		}
		kind, _ := block.Get("type").Text()
		if kind == "skill" {
			return false
		}
		if kind == "text" && len(text) > 2 && text[0] == '"' {
			return true
		}
		at = space(prompt, end)
		if prompt[at] == ',' {
			at = space(prompt, at+1)
		}
	}
	return true
}

// offset tells where a part begins: both end where the text they are slices of does.
func (m *Message) offset(part Raw) int { return cap(m.Params) - cap(part) }

func (m *Message) splice(start, end int, middle Raw) {
	m.Params = JSON(m.Params[:start], middle, m.Params[end:])
}

// Pass passes it on as it is now; the answer goes back by itself.
func (m *Message) Pass() {
	if m.settled || m.passed {
		return
	}
	if m.Side == Conductor {
		m.Drop()
		return
	}
	m.proxy.send(m.Side.other(), m.ID, m.name, m.Params)
	if m.ID != nil {
		m.proxy.forwarded[string(m.ID)] = m.Side.other()
	}
	m.settle()
}

// Next passes a request on as it is now and waits for the answer, which the handler may replace.
func (m *Message) Next() Answer {
	if m.ID == nil || m.settled || m.passed || m.Side == Conductor {
		m.Pass()
		return Answer{}
	}
	m.proxy.send(m.Side.other(), m.ID, m.name, m.Params)
	m.passed = true
	m.proxy.waiting[string(m.ID)] = waiting{message: m, side: m.Side.other(), passed: true}
	m.release()
	answer := m.wait()
	m.answer = &answer
	return answer
}

// Answer answers a request; with null if there is nothing.
func (m *Message) Answer(result Raw) {
	if result == nil {
		result = Raw("null")
	}
	m.end(Answer{Result: result})
}

// Fail answers a request with an error.
func (m *Message) Fail(code string, text string) {
	m.end(Answer{Error: JSON(`{"code":`, code, `,"message":`, Quote(text), "}")})
}

func (m *Message) end(answer Answer) {
	if m.ID != nil && !m.settled {
		m.proxy.reply(m.ID, answer)
	}
	if m.lane != nil && m.lane.side == m.Side {
		// What takes it back is about nothing any more.
		m.lane.queue = slices.DeleteFunc(m.lane.queue, func(one arrival) bool {
			return one.method == cancel && m.takenBack(one)
		})
	}
	m.settle()
}

// Drop lets a notification go no further. A request has to be answered, so this fails it.
func (m *Message) Drop() { m.Fail("-32601", "Method not found") }

// Ask sends a request of the handler's own and waits for the answer.
func (m *Message) Ask(to Side, method string, params Raw) Answer {
	m.proxy.send(to, m.proxy.expect(m, to), named(to, method), params)
	return m.wait()
}

// Clock asks the conductor for the time: members date, time, weekday, timezone, iso, unixMs.
func (m *Message) Clock() Answer { return m.Ask(Conductor, "clock", nil) }

// Setting asks the conductor for a setting, the user's choice; nil: it was not made.
func (m *Message) Setting(name string) Raw {
	return m.Ask(Conductor, "config", nil).Result.Get("config", name)
}

// Notify sends a notification of the proxy's own.
func (m *Message) Notify(to Side, method string, params Raw) {
	m.proxy.send(to, nil, named(to, method), params)
}

func named(to Side, method string) Raw {
	if to == Conductor {
		method = service + method
	}
	return Quote(method)
}

// Log writes to the conductor's log; level is debug, info, warn or error.
func (m *Message) Log(level, text string) {
	m.Notify(Conductor, "log", JSON(`{"level":`, Quote(level), `,"message":`, Quote(text), "}"))
}

// Cancelled tells whether nobody wants the answer any more, said before it was passed on: the client
// has cancelled the request, or the turn it begins. What was asked for it is cancelled then by itself.
func (m *Message) Cancelled() bool {
	if m.lane == nil || m.lane.side != m.Side {
		return false
	}
	for _, one := range m.lane.queue {
		if m.takenBack(one) {
			return true
		}
	}
	return false
}

func (m *Message) takenBack(one arrival) bool {
	if one.method == "session/cancel" {
		return m.ID != nil && m.Side == Client && m.Method == "session/prompt"
	}
	return one.method == cancel && m.ID != nil && bytes.Equal(one.params.Get("requestId"), m.ID)
}

func (m *Message) wait() Answer {
	m.proxy.baton <- struct{}{}
	return <-m.wake
}

func (m *Message) settle() {
	m.settled = true
	m.release()
}

func (m *Message) release() {
	if m.lane != nil {
		m.lane.holder = nil
		m.lane = nil
	}
}

func (m *Message) finish() {
	if m.answer != nil && !m.settled {
		m.proxy.reply(m.ID, *m.answer)
		m.settle()
	}
	m.Pass()
	m.proxy.baton <- struct{}{}
}
