// The proxy that probe.txt describes.
package main

import "conductor/guest"

func main() {
	proxy := guest.New()
	proxy.Handle("session/new", func(m *guest.Message) {
		if answer := m.Next(); answer.Error == nil {
			m.Answer(guest.JSON(`{"wrapped":`, answer.Result, "}"))
		}
	})
	proxy.Handle("session/list", func(m *guest.Message) { m.Answer(guest.Raw(`{"sessions":[]}`)) })
	proxy.Handle("session/delete", func(m *guest.Message) {
		m.Fail("-32001", "never "+string(m.Get("sessionId")))
	})
	proxy.Handle("session/prompt", func(m *guest.Message) {
		word := m.Setting("word")
		if word == nil {
			word = guest.Raw("null")
		}
		m.Ask(guest.Agent, "_probe/warm", guest.JSON(`{"word":`, word, "}"))
	})
	proxy.Handle("session/fork", func(m *guest.Message) {
		m.Ask(guest.Agent, "_probe/slow", nil)
		if m.Cancelled() {
			m.Fail("-32800", "Request cancelled")
		}
	})
	proxy.Handle("_probe/ask", func(m *guest.Message) {
		answer := m.Ask(guest.Conductor, "kv/get", guest.Raw(`{"key":"k"}`))
		if answer.Error == nil {
			m.Answer(answer.Result.Get("value"))
		}
	})
	proxy.Handle("_probe/fault", func(*guest.Message) { panic("wrong on purpose") })
	proxy.Handle("configure", func(m *guest.Message) {
		if kept := m.Get("kept"); kept != nil {
			m.Notify(guest.Conductor, "keep", guest.JSON(`{"b":`, kept, "}"))
		}
	})
	proxy.Update("plan", func(m *guest.Message) { m.Drop() })
	proxy.Update("usage_update", func(m *guest.Message) {
		m.Ask(guest.Conductor, "kv/get", guest.Raw(`{"key":"k"}`))
	})
	proxy.Handle("timer/fired", func(m *guest.Message) {
		m.Notify(guest.Client, "_probe/fired", guest.Raw(`{"n":1.0}`))
		m.Log("info", "fired")
	})
	proxy.Run()
}
