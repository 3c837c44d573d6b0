package guest

import (
	"bytes"
	"strings"
)

// lane is the messages of one session and direction, held up by one that is being handled.
type lane struct {
	side    Side
	session string
	holder  *Message
	queue   []arrival
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
	if l.holder != nil && l.holder.Side == l.side && bytes.Equal(l.holder.ID, id) {
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
	// U+FFFD may stand for half an emoji, and those of two sessions may differ.
	if text, ok := raw.Text(); ok && !strings.Contains(text, "\ufffd") {
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
