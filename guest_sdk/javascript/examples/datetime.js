// Puts the date and the time in front of every prompt: agents guess them otherwise.
import { CLIENT, Proxy } from "../guest.js";

const proxy = new Proxy();
let warned = false;

proxy.handle("session/prompt", function* (message) {
  const takes = message.raw("prompt")?.startsWith("[");
  if (message.side !== CLIENT || message.id === undefined || !takes) return;
  const { result, error } = yield message.clock();
  if (result) {
    message.preface(`<current-date date="${result.date}" time="${result.time}"/>`);
  } else if (!warned) {
    const reason = `no clock, prompts go on without the date: ${error?.message}`;
    proxy.log("warn", `datetime: ${reason}`);
    warned = true;
  }
});

export const channel = proxy.channel;
