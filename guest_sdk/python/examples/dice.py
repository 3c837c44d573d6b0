"""Gives the agent dice, and a page that shows how they fell, with a button to roll again.

conductor chat ./dice.py,allow=show:panel+web:panel demo     then: /tool roll {"count": 3}
"""

from guest_sdk.python import Proxy, ToolError

PAGE = """<!doctype html>
<title>Dice</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  body { margin: 0; padding: 16px }
  #dice { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 0 16px; padding: 0 }
  li { width: 56px; height: 56px; border: 2px solid; border-radius: 12px;
       font-size: 28px; font-weight: 650; display: grid; place-items: center }
  button { font: inherit; padding: 6px 16px }
</style>
<ul id="dice"></ul>
<button id="again">Roll again</button> <span id="sum" role="status"></span>
<script type="module">
  let last = 0;
  let given = {};
  const waiting = new Map();
  const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const ask = (method, params) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    send({ id: last, method, params });
  });
  const show = ({ dice }) => {
    document.getElementById("dice").replaceChildren(...dice.map((each) => {
      const made = document.createElement("li");
      made.textContent = each;
      return made;
    }));
    document.getElementById("sum").textContent = `Sum: ${dice.reduce((a, b) => a + b, 0)}`;
    const { height } = document.body.getBoundingClientRect();
    send({ method: "ui/notifications/size-changed", params: { height: Math.ceil(height) } });
  };
  addEventListener("message", ({ data, source }) => {
    if (source !== parent || data?.jsonrpc !== "2.0") return;
    if (data.method === "ui/notifications/tool-input") given = data.params.arguments ?? {};
    if (data.method === "ui/notifications/tool-result") show(data.params.structuredContent);
    const { resolve, reject } = waiting.get(data.id) ?? {};
    waiting.delete(data.id);
    if (data.error) reject?.(new Error(data.error.message));
    else resolve?.(data.result);
  });
  document.getElementById("again").onclick = async () => {
    try {
      const result = await ask("tools/call", { name: "roll", arguments: given });
      show(result.structuredContent);
    } catch (error) {
      document.getElementById("sum").textContent = error.message;
    }
  };
  await ask("ui/initialize", {
    appInfo: { name: "dice", version: "1.0.0" },
    appCapabilities: {},
    protocolVersion: "2026-01-26",
  });
  send({ method: "ui/notifications/initialized" });
</script>
"""

proxy = Proxy(
    "dice",
    rights={
        "serve:tools": "to let the agent roll dice",
        "show:panel": "to show how they fell",
        "web:panel": "to roll them again by a button",
        "random": "to roll them",
    },
    description="Dice, and a page that shows them.",
)


@proxy.tool(title="Roll dice", meta={"ui": {"resourceUri": "ui://dice/table"}})
async def roll(count: int = 2, sides: int = 6) -> dict[str, list[int]]:
    """Rolls dice."""
    if not (1 <= count <= 20 and sides > 1):
        raise ToolError("roll 1 to 20 dice, of 2 sides or more")
    return {"dice": [await proxy.random.integer(sides) + 1 for _ in range(count)]}


@proxy.resource("ui://dice/table", mime_type="text/html;profile=mcp-app")
def table() -> str:
    """How the dice fell."""
    return PAGE


if __name__ == "__main__":
    proxy.run()
