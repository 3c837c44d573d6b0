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

	withdrawn bool
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

func (p *Proxy) receive(one arrival) {
	if one.method == "" {
		p.answered(one)
		return
	}
	if held := p.laneFor(one); held != nil {
		if held.holder != nil && held.holder.Side == held.side && held.holder.takenBack(one) {
			p.withdraw(held.holder)
		}
		held.queue = append(held.queue, one)
		return
	}
	p.dispatch(one)
}

// withdraw cancels what a message has asked its neighbours, once.
func (p *Proxy) withdraw(message *Message) {
	for id, one := range p.waiting {
		if one.message != message || one.passed || one.withdrawn || one.side == Conductor {
			continue
		}
		one.withdrawn = true
		p.waiting[id] = one
		p.parts(`{"jsonrpc":"2.0","method":"`, cancel, `","params":{"requestId":`, id, "}}\n")
	}
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
			name: one.name, proxy: p, wake: make(chan Answer),
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
		p.send(one.side.other(), one.id, one.name, one.params)
		if one.id != nil {
			p.forwarded[string(one.id)] = one.side.other()
		}
	}
}

func (p *Proxy) expect(message *Message, side Side) Raw {
	p.count++
	id := `"x` + strconv.Itoa(p.count) + `"`
	p.waiting[id] = waiting{message: message, side: side}
	return Raw(id)
}
