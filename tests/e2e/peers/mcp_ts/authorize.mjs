// Preloaded into a program that cannot be told headers: each of its HTTP requests gets those in
// AUTHORIZE, a JSON object, whether it makes them by fetch, by undici or by node:http.
import http from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { Agent, setGlobalDispatcher } from "undici";

const added = Object.entries(JSON.parse(process.env.AUTHORIZE));

function pairs(headers) {
  if (!headers) return [];
  if (!Array.isArray(headers)) {
    return typeof headers[Symbol.iterator] === "function" ? [...headers] : Object.entries(headers);
  }
  if (Array.isArray(headers[0])) return headers;
  return headers.flatMap((name, at) => (at % 2 ? [] : [[name, headers[at + 1]]]));
}

const authorized = (dispatch) => (options, handler) => {
  const headers = Object.fromEntries([...pairs(options.headers), ...added]);
  return dispatch({ ...options, headers }, handler);
};
setGlobalDispatcher(new Agent().compose(authorized));

const { request } = http;
http.request = (...given) => {
  const made = request(...given);
  for (const [name, value] of added) made.setHeader(name, value);
  return made;
};
syncBuiltinESMExports();
