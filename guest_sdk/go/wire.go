package guest

import "bytes"

// arrival is one message, its envelope opened.
type arrival struct {
	side               Side
	id, params, result Raw
	fault              Raw
	method             string
	name               Raw // the method as it is written
	line               Raw
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
		one.params, one.side, one.method, one.name = nil, Agent, "", nil
		one.take(inner)
	case one.method == role:
		one.method, one.name = "initialize", Raw(`"initialize"`)
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
			a.name = one.value
		case "params":
			a.params = one.value
		case "result":
			a.result = one.value
		case "error":
			a.fault = one.value
		}
	}
}

// send writes a message towards a side.
func (p *Proxy) send(to Side, id, method, params Raw) {
	p.out.WriteString(`{"jsonrpc":"2.0",`)
	if id != nil {
		p.parts(`"id":`, id, `,`)
	}
	if to == Agent {
		p.parts(`"method":"proxy/successor","params":{`)
	}
	p.parts(`"method":`, method)
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
