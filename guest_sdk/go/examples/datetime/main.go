// datetime puts the date and the time in front of every prompt: agents guess them otherwise.
package main

import "conductor/guest"

func main() {
	proxy := guest.New()
	warned := false
	proxy.Handle("session/prompt", func(m *guest.Message) {
		if m.Side != guest.Client || m.ID == nil || !m.Get("prompt").IsArray() {
			return
		}
		now := m.Clock()
		if now.Error != nil {
			if !warned {
				m.Log("warn", "datetime: no clock, prompts go on without the date: "+now.Reason())
			}
			warned = true
			return
		}
		date, _ := now.Result.Get("date").Text()
		time, _ := now.Result.Get("time").Text()
		m.Preface(`<current-date date="` + date + `" time="` + time + `"/>`)
	})
	proxy.Run()
}
