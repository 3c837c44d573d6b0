// The chain in the order of its components. A click on one shows what it touched; its switch has
// every message go past it, and through it again.

import { el, refill } from "./dom.js";
import { hue } from "./turn.js";

const ENDS = new Set(["client", "agent"]);

/** Draws the components of a chain, with a switch for each that can be paused. */
export class Chain {
  /** @param {HTMLElement} place
   * @param {object} data  where the trace is
   * @param {(name: string) => void} choose  a component was chosen
   * @param {(text: string) => void} problem  says what went wrong; an empty text: nothing */
  constructor(place, data, choose, problem) {
    Object.assign(this, { place, data, choose, problem });
    /** The switch that waits for the end of a turn: one at a time, since each holds a connection. */
    this.waiting = null;
  }

  /** @param {object} head  what the trace is of  @param {string} component  the chosen one
   * @param {boolean} isLive  whether the chain is there */
  show(head, component, isLive) {
    this.shown = [head, component, isLive];
    const paused = head.paused ?? [];
    const made = JSON.stringify([head.components, component, paused, isLive, this.waiting?.name]);
    if (this.place.dataset.made === made) return;
    this.place.dataset.made = made;
    const parts = head.components.filter((name) => name !== "client").map((name) => {
      const button = el("button.component", {
        type: "button", "aria-pressed": String(component === name), "data-key": `chain ${name}`,
        "data-paused": String(paused.includes(name)),
        title: `only what ${name} touched`, onclick: () => this.choose(component === name ? "" : name),
      }, name);
      button.style.setProperty("--hue", hue(head.components, name));
      const isSwitched = isLive && head.process && !ENDS.has(name);
      return isSwitched ? [button, this.button(name, paused.includes(name))] : button;
    });
    refill(this.place, parts.flatMap((part, at) => (
      at ? [el("span.arrow-sign", { "aria-hidden": true }, "›"), part] : [part])));
  }

  button(name, isPaused) {
    const isWaiting = this.waiting?.name === name;
    return el("button.switch", {
      type: "button", role: "switch", "aria-checked": String(!isPaused), "aria-busy": String(isWaiting), disabled: this.waiting !== null && !isWaiting,
      "data-key": `switch ${name}`,
      "aria-label": `${name} takes part`, onclick: () => this.turn(name, !isPaused),
      title: isWaiting ? "waits for the end of the turn; a click gives up"
        : isPaused ? `resume ${name}` : `pause ${name}: every message goes past it`,
    });
  }

  /** Pauses a component or resumes it. That happens between two turns: a second click gives up. */
  async turn(name, paused) {
    if (this.waiting !== null) {
      this.waiting.abort.abort();
      return;
    }
    const abort = new AbortController();
    this.waiting = { name, abort };
    this.problem("");
    this.show(...this.shown);
    try {
      await this.data.json("/api/pause", {
        method: "POST", body: JSON.stringify({ name, paused }), signal: abort.signal, headers: { "Content-Type": "application/json" },
      });
    } catch (error) {
      if (error.name !== "AbortError") this.problem(`${paused ? "Pausing" : "Resuming"} ${name}: ${error.message}`);
    } finally {
      this.waiting = null;
      this.show(...this.shown);
    }
  }
}
