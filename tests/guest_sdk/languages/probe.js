// The proxy that probe.txt describes.
import { AGENT, CLIENT, CONDUCTOR, Proxy, Raw } from "../guest.js";

const proxy = new Proxy();

proxy.handle("session/new", function* (message) {
  const answer = yield message.next();
  if (answer.raw) message.answer(new Raw(`{"wrapped":${answer.raw}}`));
});
proxy.handle("session/list", (message) => message.answer({ sessions: [] }));
proxy.handle("session/delete", (message) => {
  message.fail(-32001, `never ${message.raw("sessionId")}`);
});
proxy.handle("session/prompt", function* (message) {
  yield message.ask(AGENT, "_probe/warm", { word: proxy.settings.word ?? null });
});
proxy.handle("session/fork", function* (message) {
  yield message.ask(AGENT, "_probe/slow");
  if (message.cancelled) message.fail(-32800, "Request cancelled");
});
proxy.handle("_probe/ask", function* (message) {
  const answer = yield message.ask(CONDUCTOR, "kv/get", { key: "k" });
  if (answer.raw) message.answer(new Raw(answer.rawOf("value")));
});
proxy.handle("_probe/fault", () => {
  throw new Error("wrong on purpose");
});
proxy.handle("_probe/promise", async () => {});
proxy.handle("_probe/nothing", function* () {
  yield 7;
});
proxy.handle("configure", (message) => {
  const kept = message.raw("kept");
  if (kept) proxy.notify(CONDUCTOR, "keep", new Raw(`{"b":${kept}}`));
});
proxy.update("plan", (message) => message.drop());
proxy.update("usage_update", function* (message) {
  yield message.ask(CONDUCTOR, "kv/get", { key: "k" });
});
proxy.handle("timer/fired", () => {
  proxy.notify(CLIENT, "_probe/fired", new Raw('{"n":1.0}'));
  proxy.log("info", "fired");
});

export const channel = proxy.channel;
