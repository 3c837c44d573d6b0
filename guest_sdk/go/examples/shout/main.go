// shout makes the agent shout: what it says passes in capitals.
package main

import (
	"strings"

	"conductor/guest"
)

func main() {
	proxy := guest.New()
	proxy.Update("agent_message_chunk", func(m *guest.Message) {
		text, ok := m.Text("update", "content", "text")
		if loud := strings.ToUpper(text); ok && loud != text {
			m.SetText(loud, "update", "content", "text")
		}
	})
	proxy.Run()
}
