// The two panes of a page: side by side, or in a narrow window as tabs.

const NAMES = ["conversation", "turn"];
const tab = (name) => document.getElementById(`tab-${name}`);

/** Shows a pane where there is room for one only. */
export function show(name) {
  document.querySelector("main").dataset.pane = name;
  for (const each of NAMES) {
    tab(each).setAttribute("aria-selected", String(each === name));
    tab(each).tabIndex = each === name ? 0 : -1;
  }
}

for (const name of NAMES) {
  tab(name).addEventListener("click", () => show(name));
  tab(name).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = NAMES.find((each) => each !== name);
    show(other);
    tab(other).focus();
  });
}
