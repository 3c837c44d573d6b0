// Package guest is a library for proxies in Go, built as WASI commands (GOOS=wasip1). It speaks
// the dialect acp: JSON-RPC, one message a line, on standard input and output
// (docs/architecture.md, "Dialects"). The same program runs as an ordinary process.
//
// What has no handler passes. Handlers run one at a time, so they need no locks.
package guest

import (
	"bytes"
	"io"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	envelope  = "proxy/successor"
	role      = "proxy/initialize"
	service   = "_conductor/"
	cancel    = "$/cancel_request"
	chunk     = 256 << 10
	heapBytes = 40 << 20 // of the 64 MiB a guest has, so that it is collected before they end
)

// Proxy is what is handled, and what is under way.
type Proxy struct {
	handlers  map[string]func(*Message) // by method, or by kind of update behind "session/update "
	baton     chan struct{}             // given back by a handler that waits or ends
	waiting   map[string]waiting        // by the id of our requests
	forwarded map[string]Side           // where a request went that keeps its id
	lanes     []*lane
	open      *lane // its queue is let go on, so it does not hold up what comes from there
	count     int
	out       bytes.Buffer
}

type waiting struct {
	message *Message
	side    Side
	passed  bool // it is the message itself, passed on
}

// lane is the messages of one session and direction, held up by one that is being handled.
type lane struct {
	side    Side
	session string
	holder  *Message
	queue   []arrival
}

// arrival is one message, its envelope opened.
type arrival struct {
	side               Side
	id, params, result Raw
	fault              Raw
	method             string
	line               Raw
}

// New is a proxy that passes everything on.
func New() *Proxy {
	return &Proxy{
		handlers:  map[string]func(*Message){},
		baton:     make(chan struct{}),
		waiting:   map[string]waiting{},
		forwarded: map[string]Side{},
	}
}

// Handle declares who handles the requests or notifications of a method, from any side.
func (p *Proxy) Handle(method string, handler func(*Message)) { p.handlers[method] = handler }

// Update declares who handles one kind of update of the agent's.
func (p *Proxy) Update(kind string, handler func(*Message)) {
	p.handlers["session/update "+kind] = handler
}

// Run serves until the input ends.
func (p *Proxy) Run() {
	debug.SetMemoryLimit(heapBytes)
	if err := p.serve(os.Stdin, os.Stdout); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func (p *Proxy) serve(in io.Reader, out io.Writer) error {
	var held []byte
	buffer := make([]byte, chunk)
	for {
		count, err := in.Read(buffer)
		held = append(held, buffer[:count]...)
		if end := bytes.LastIndexByte(held, '\n'); end >= 0 {
			// What is held up keeps slices of these lines, so they are not written over.
			lines := held[:end]
			held = append([]byte(nil), held[end+1:]...)
			for _, line := range bytes.Split(lines, []byte{'\n'}) {
				p.read(line[:len(line):len(line)])
			}
			if _, broken := out.Write(p.out.Bytes()); broken != nil {
				return broken
			}
			p.out.Reset()
			if p.out.Cap() > 4*chunk {
				p.out = bytes.Buffer{}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// read takes one line off the wire.
func (p *Proxy) read(line Raw) {
	found, ok := members(line)
	if !ok {
		if len(bytes.TrimSpace(line)) > 0 {
			p.refuse(Raw("null"), "-32700", "a line is no JSON object")
		}
		return
	}
	one := arrival{side: Client, line: line}
	one.take(found)
	switch {
	case one.method == "":
		one.side = p.forwarded[string(one.id)]
		if at, ok := p.waiting[string(one.id)]; ok {
			one.side = at.side
		}
	case one.method == envelope:
		inner, ok := members(one.params)
		if !ok {
			p.refuse(one.id, "-32600", "`proxy/successor` has no message")
			return
		}
		one.params, one.side, one.method = nil, Agent, ""
		one.take(inner)
	case one.method == role:
		one.method = "initialize"
	case one.method == "initialize":
		p.refuse(one.id, "-32600", "this is a proxy: it is initialized by `proxy/initialize`")
		return
	case len(one.method) > len(service) && one.method[:len(service)] == service:
		one.method, one.side = one.method[len(service):], Conductor
	}
	p.receive(one)
	p.drain()
}

func (a *arrival) take(found []member) {
	for _, one := range found {
		switch one.name {
		case "id":
			a.id = one.value
		case "method":
			a.method, _ = one.value.Text()
		case "params":
			a.params = one.value
		case "result":
			a.result = one.value
		case "error":
			a.fault = one.value
		}
	}
}

func (p *Proxy) receive(one arrival) {
	if one.method == "" {
		p.answered(one)
		return
	}
	if held := p.laneFor(one); held != nil {
		held.queue = append(held.queue, one)
		return
	}
	p.dispatch(one)
}

// laneFor is the lane a message has to wait in, if any.
func (p *Proxy) laneFor(one arrival) *lane {
	if one.side == Conductor || len(p.lanes) == 0 {
		return nil
	}
	if one.method == cancel {
		id := one.params.Get("requestId")
		for _, held := range p.lanes {
			if held != p.open && held.has(id) {
				return held
			}
		}
		return nil
	}
	return p.blocked(one.side, session(one.params))
}

func (l *lane) has(id Raw) bool {
	if l.holder != nil && bytes.Equal(l.holder.ID, id) {
		return true
	}
	for _, one := range l.queue {
		if one.method != "" && bytes.Equal(one.id, id) {
			return true
		}
	}
	return false
}

func session(params Raw) string {
	raw := params.Get("sessionId")
	if text, ok := raw.Text(); ok {
		return text
	}
	return string(raw)
}

func (p *Proxy) find(side Side, session string) *lane {
	for _, held := range p.lanes {
		if held.side == side && held.session == session {
			return held
		}
	}
	return nil
}

func (p *Proxy) blocked(side Side, session string) *lane {
	if held := p.find(side, session); held != p.open {
		return held
	}
	return nil
}

func (p *Proxy) answered(one arrival) {
	id := string(one.id)
	at, ours := p.waiting[id]
	if ours {
		message := at.message
		if at.passed {
			name := session(message.Params)
			if held := p.blocked(at.side, name); held != nil {
				held.queue = append(held.queue, one)
				return
			}
			p.hold(message, at.side, name)
		}
		delete(p.waiting, id)
		message.wake <- Answer{one.result, one.fault}
		<-p.baton
		return
	}
	// An answer that ends a turn must not overtake what came before it.
	if one.side == Agent {
		for _, held := range p.lanes {
			if held != p.open && held.side == Agent {
				held.queue = append(held.queue, one)
				return
			}
		}
	}
	if _, known := p.forwarded[id]; known {
		delete(p.forwarded, id)
		p.line(one.line) // its request kept its id, so it is the answer as it is
	}
}

func (p *Proxy) dispatch(one arrival) {
	handler := p.handlers[one.method]
	if one.method == "session/update" {
		kind, _ := one.params.Get("update", "sessionUpdate").Text()
		if special := p.handlers["session/update "+kind]; special != nil {
			handler = special
		}
	}
	if handler != nil {
		message := &Message{
			Side: one.side, Method: one.method, ID: one.id, Params: one.params,
			proxy: p, wake: make(chan Answer),
		}
		if one.side != Conductor {
			p.hold(message, one.side, session(one.params))
		}
		go func() {
			handler(message)
			message.finish()
		}()
		<-p.baton
		return
	}
	switch {
	case one.side == Conductor:
		if one.id != nil {
			p.refuse(one.id, "-32601", "Method not found")
		}
	case one.method == cancel:
		p.line(one.line) // what it is about kept its id, too
	default:
		p.send(one.side.other(), one.id, one.method, one.params)
		if one.id != nil {
			p.forwarded[string(one.id)] = one.side.other()
		}
	}
}

func (p *Proxy) hold(message *Message, side Side, session string) {
	held := p.find(side, session)
	if held == nil {
		held = &lane{side: side, session: session}
		p.lanes = append(p.lanes, held)
	}
	held.holder, message.lane = message, held
}

// drain lets go on what waits for nobody any more.
func (p *Proxy) drain() {
	for index := 0; index < len(p.lanes); {
		held := p.lanes[index]
		for held.holder == nil && len(held.queue) > 0 {
			one := held.queue[0]
			held.queue = held.queue[1:]
			p.open = held
			p.receive(one)
			p.open = nil
		}
		if held.holder != nil {
			index++
			continue
		}
		p.lanes = append(p.lanes[:index], p.lanes[index+1:]...)
		index = 0 // what went on may have freed an earlier one
	}
}

func (p *Proxy) expect(message *Message, side Side) Raw {
	p.count++
	id := `"x` + strconv.Itoa(p.count) + `"`
	p.waiting[id] = waiting{message, side, false}
	return Raw(id)
}

// send writes a message towards a side.
func (p *Proxy) send(to Side, id Raw, method string, params Raw) {
	p.out.WriteString(`{"jsonrpc":"2.0",`)
	if id != nil {
		p.parts(`"id":`, id, `,`)
	}
	switch {
	case to == Agent:
		p.parts(`"method":"proxy/successor","params":{`)
	case to == Conductor:
		method = service + method
	}
	p.parts(`"method":`, Quote(method))
	if params != nil {
		p.parts(`,"params":`, params)
	}
	if to == Agent {
		p.parts("}")
	}
	p.parts("}\n")
}

func (p *Proxy) reply(id Raw, answer Answer) {
	p.parts(`{"jsonrpc":"2.0","id":`, id)
	if answer.Error != nil {
		p.parts(`,"error":`, answer.Error, "}\n")
		return
	}
	p.parts(`,"result":`, answer.Result, "}\n")
}

func (p *Proxy) refuse(id Raw, code, text string) {
	if id != nil {
		p.reply(id, Answer{Error: JSON(`{"code":`, code, `,"message":`, Quote(text), "}")})
	}
}

func (p *Proxy) line(line Raw) {
	p.out.Write(line)
	p.out.WriteByte('\n')
}

func (p *Proxy) parts(parts ...any) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			p.out.WriteString(part)
		case Raw:
			p.out.Write(part)
		}
	}
}
