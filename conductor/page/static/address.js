// What is chosen, as the address says it: it can be linked to, and the back button works.

const NAMES = ["session", "turn", "component", "filter", "event", "all"];

/** What is chosen. A number is null where none is. */
export function chosen() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (/^\d{1,9}$/.test(parts.get(name) ?? "") ? Number(parts.get(name)) : null);
  return {
    turn: number("turn"), event: number("event"), component: parts.get("component") ?? "",
    filter: parts.get("filter") ?? "", session: parts.get("session") ?? "", all: parts.get("all") === "1" ? "1" : "",
  };
}

/** Changes the address: a step of its own for the back button, unless it replaces the last one. */
export function change(changes, { replace = false } = {}) {
  const now = { ...chosen(), ...changes };
  if (changes.turn !== undefined && changes.event === undefined) now.event = null;
  const parts = new URLSearchParams();
  for (const name of NAMES) {
    if (now[name] !== null && now[name] !== "") parts.set(name, now[name]);
  }
  const address = parts.size ? `#${parts}` : location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", address);
}
