// Makes the agent shout: what it says passes in capitals.
import { Proxy } from "../guest.js";

const proxy = new Proxy();
const path = ["update", "content", "text"];

proxy.update("agent_message_chunk", (message) => {
  const text = message.value(...path);
  if (typeof text !== "string" || text === text.toUpperCase()) return;
  message.set(path, text.toUpperCase());
});

export const channel = proxy.channel;
