// Checks an HTML file with axe, as a browser would show it, and prints axe's result.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { JSDOM, VirtualConsole } from "jsdom";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const page = readFileSync(process.argv[2], "utf8");
// jsdom has no canvas, and says so on a console that nobody reads.
const dom = new JSDOM(page, { runScripts: "outside-only", virtualConsole: new VirtualConsole() });
dom.window.eval(axe);
console.log(JSON.stringify(await dom.window.axe.run()));
