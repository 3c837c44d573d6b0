// What can be set of a session: its mode, and the configuration options that the agent offers.

import { el, refill } from "./dom.js";

const list = (value) => (Array.isArray(value) ? value : []);

function choice(label, values, current, choose, key, title) {
  const select = el("select", { "data-key": key, title, onchange: () => choose(select.value) },
    values.map((each) => (Array.isArray(each.options)
      ? el("optgroup", { label: String(each.name ?? "") }, each.options.map((one) => option(one, current)))
      : option(each, current))));
  return el("label", {}, label, select);
}

function option({ value, name }, current) {
  return el("option", { value: String(value ?? ""), selected: value === current }, String(name ?? value ?? ""));
}

/** The settings of a session. @param {(what: string, body: object) => void} set */
export function settings(place, session, set) {
  const options = list(session?.options);
  const modes = list(session?.modes?.availableModes);
  const mark = JSON.stringify([session?.id, session?.options, session?.modes]);
  if (place.dataset.mark === mark) return;
  place.dataset.mark = mark;
  const made = options.map((each) => {
    const label = String(each?.name ?? each?.id ?? "");
    const title = String(each?.description ?? label);
    const put = (value) => set("option", { session: session.id, option: String(each.id), value });
    if (each?.type === "boolean") {
      const box = el("input", {
        type: "checkbox", checked: each.currentValue === true, "data-key": `option ${each.id}`, title, onchange: () => put(box.checked),
      });
      return el("label", {}, box, label);
    }
    return choice(label, list(each?.options), each?.currentValue, put, `option ${each?.id}`, title);
  });
  // Agents offer modes beside the options for clients that know no options.
  if (!options.length && modes.length) {
    made.push(choice("Mode", modes.map(({ id, name }) => ({ value: id, name })), session.modes.currentModeId,
      (mode) => set("mode", { session: session.id, mode }), "mode", "Mode of the session"));
  }
  refill(place, made);
}
