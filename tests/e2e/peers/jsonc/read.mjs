// Reads a JSON list of texts; writes what the parser of VS Code's settings makes of each.
import { parse } from "jsonc-parser";

let given = "";
for await (const chunk of process.stdin) given += chunk;
const found = JSON.parse(given).map((text) => {
  const errors = [];
  const value = parse(text, errors, { allowTrailingComma: true });
  return errors.length ? { refused: true } : { value };
});
process.stdout.write(JSON.stringify(found));
