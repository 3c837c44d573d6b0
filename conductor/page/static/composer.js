// Where a prompt is written: its text, its pictures, the commands of the agent.

import { el, fill } from "./dom.js";

const KEPT = "conductor-draft ";
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const MOST_PICTURE = 8 * 1024 * 1024;
const MOST_PICTURES = 8;
const MOST_COMMANDS = 40;
const $ = (id) => document.getElementById(id);

/** The form of the prompt. */
export class Composer {
  /** @param {(parts: Array<object>) => Promise<void>} send  raises what went wrong
   * @param {(text: string) => void} problem */
  constructor(send, problem) {
    Object.assign(this, { send, problem });
    this.session = null;
    this.pictures = [];
    this.isSending = false;
    this.text = $("prompt");
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.text.addEventListener("input", () => this.typed());
    this.text.addEventListener("paste", (event) => this.pasted(event));
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    $("attach").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => {
      this.attach([...$("file").files]);
      $("file").value = "";
    });
  }

  /** @param {object} session  @param {boolean} takesPictures  @param {boolean} isOver  nothing can be sent any more */
  show(session, takesPictures, isOver) {
    if (session?.id !== this.session?.id) {
      // What was written before there was a session belongs to the first one.
      const early = this.session === null ? this.text.value : "";
      this.session = session;
      this.text.value = early || (sessionStorage.getItem(KEPT + session?.id) ?? "");
      if (early) this.typed();
      this.pictures = [];
      this.drawPictures();
    }
    this.session = session;
    this.takesPictures = takesPictures;
    this.isOver = isOver;
    $("attach").hidden = !takesPictures;
    $("send").hidden = Boolean(session?.running);
    $("cancel").hidden = !session?.running;
    $("cancel").textContent = session?.cancelling ? "Cancelling …" : "Cancel the turn";
    this.usable();
    this.suggest();
  }

  usable() {
    const isEmpty = !this.text.value.trim() && !this.pictures.length;
    $("send").disabled = isEmpty || this.isOver || this.isSending || !this.session || this.session.loading;
    this.text.disabled = Boolean(this.isOver);
  }

  typed() {
    sessionStorage.setItem(KEPT + this.session?.id, this.text.value);
    this.problem("");
    this.usable();
    this.suggest();
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  async submit() {
    this.usable();
    if ($("send").disabled) return;
    if (this.session.running) {
      this.problem("The turn is still running. Cancel it, or wait for its end.");
      return;
    }
    const { pictures, session, text: { value } } = this;
    const parts = pictures.map(({ mime, data }) => ({ mime, data }));
    if (value.trim()) parts.unshift({ text: value });
    this.isSending = true;
    // A question of the agent may come before the answer to this request.
    this.put("", []);
    try {
      await this.send(parts);
      sessionStorage.removeItem(KEPT + session.id);
    } catch (error) {
      if (this.session.id === session.id) this.put(value, pictures);
      this.problem(error.message);
    } finally {
      this.isSending = false;
      this.usable();
      this.suggest();
    }
  }

  put(text, pictures) {
    this.text.value = text;
    this.pictures = pictures;
    this.drawPictures();
    this.problem("");
    this.usable();
  }

  // -- pictures -------------------------------------------------------------------------------

  pasted(event) {
    const files = [...event.clipboardData?.files ?? []].filter((file) => file.type.startsWith("image/"));
    if (!files.length || !this.takesPictures) return;
    event.preventDefault();
    this.attach(files);
  }

  async attach(files) {
    for (const file of files) {
      if (!PICTURES.has(file.type)) this.problem(`${file.name} is no PNG, JPEG, GIF or WebP picture.`);
      else if (file.size > MOST_PICTURE) this.problem(`${file.name} is larger than 8 MiB.`);
      else if (this.pictures.length === MOST_PICTURES) this.problem(`A prompt holds at most ${MOST_PICTURES} pictures.`);
      else this.pictures.push({ name: file.name, mime: file.type, data: await base64(file) });
    }
    this.drawPictures();
    this.usable();
  }

  drawPictures() {
    $("pictures").hidden = !this.pictures.length;
    fill($("pictures"), this.pictures.map((picture) => el("li", {},
      el("img", { src: `data:${picture.mime};base64,${picture.data}`, alt: picture.name }),
      el("button", {
        type: "button", "aria-label": `remove ${picture.name}`, onclick: () => {
          this.pictures = this.pictures.filter((each) => each !== picture);
          this.drawPictures();
          this.usable();
        },
      }, "×"))));
  }

  // -- commands -------------------------------------------------------------------------------

  suggest() {
    const commands = Array.isArray(this.session?.commands) ? this.session.commands : [];
    const typed = /^\/(\S*)$/.exec(this.text.value)?.[1];
    const found = typed === undefined ? [] : commands.filter((each) => String(each?.name ?? "").startsWith(typed));
    $("commands").hidden = !found.length;
    fill($("commands"), found.slice(0, MOST_COMMANDS).map((command) => el("li", {}, el("button", {
      type: "button", onclick: () => {
        this.text.value = `/${command.name} `;
        this.typed();
        this.text.focus();
      },
    }, el("code", {}, `/${command.name}`), el("span.note", {}, command.description ?? "", " ", command.input?.hint ?? "")))));
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
