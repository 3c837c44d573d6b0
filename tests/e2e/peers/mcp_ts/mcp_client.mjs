// Talks to one MCP server with the official TypeScript client, of the release line 1.x or 2.x: takes
// {"line": "1"|"2", "declaration": …} as JSON on standard input, writes what it saw as one JSON object.
import { readFileSync } from "node:fs";

const plan = JSON.parse(readFileSync(0, "utf8"));
const { declaration } = plan;

async function library() {
  if (plan.line === "2") {
    const [main, stdio] = await Promise.all([
      import("@modelcontextprotocol/client"),
      import("@modelcontextprotocol/client/stdio"),
    ]);
    return { ...main, ...stdio };
  }
  const [client, stdio, http] = await Promise.all([
    import("@modelcontextprotocol/sdk/client/index.js"),
    import("@modelcontextprotocol/sdk/client/stdio.js"),
    import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
  ]);
  return { ...client, ...stdio, ...http };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await library();
const pairs = (list) => Object.fromEntries(list.map(({ name, value }) => [name, value]));
const transport =
  declaration.type === "http"
    ? new StreamableHTTPClientTransport(new URL(declaration.url), {
        requestInit: { headers: pairs(declaration.headers) },
      })
    : new StdioClientTransport({
        command: declaration.command,
        args: declaration.args,
        env: pairs(declaration.env),
      });

const options = plan.line === "2" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "conductor-test", version: "1" }, options);
await client.connect(transport);
const call = (name, args, more) =>
  plan.line === "2"
    ? client.callTool({ name, arguments: args }, more)
    : client.callTool({ name, arguments: args }, undefined, more);

const { tools } = await client.listTools();
const progress = [];
const seen = {
  server: client.getServerVersion()?.name,
  tools: tools.map((tool) => tool.name),
  sum: await call("add", { a: 2, b: 3 }),
  failure: await call("fail", { message: "on purpose" }),
  done: await call("progress", { steps: 3 }, { onprogress: (each) => progress.push(each.progress) }),
  whoami: await call("whoami", {}),
  progress,
};
await client.close();
process.stdout.write(JSON.stringify(seen));
