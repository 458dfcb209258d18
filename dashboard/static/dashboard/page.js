// Every page: the theme at once and without a request, dialogs, the list of keys.
import { bindKeys, keysAreOn, switchKeys } from "./keys.js";

const root = document.documentElement;
const isDark = () => root.dataset.theme
  ? root.dataset.theme === "dark"
  : matchMedia("(prefers-color-scheme: dark)").matches;

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  root.dataset.theme = theme;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `theme=${theme}; path=/; max-age=31536000; samesite=lax${secure}`;
  document.dispatchEvent(new Event("theme"));
}

for (const button of document.querySelectorAll("button[name=theme]")) {
  button.addEventListener("click", (event) => { event.preventDefault(); switchTheme(); });
}

const keys = document.querySelector("dialog#keys");
for (const button of document.querySelectorAll("[data-open]")) {
  button.hidden = false;
  button.addEventListener("click", () => document.getElementById(button.dataset.open)?.showModal());
}
document.addEventListener("click", (event) => event.target.closest("[data-close]")?.closest("dialog").close());

const keysSwitch = document.querySelector("[data-keys-switch]");
if (keysSwitch) {
  keysSwitch.checked = keysAreOn();
  keysSwitch.addEventListener("change", () => switchKeys(keysSwitch.checked));
  bindKeys({ t: switchTheme, "?": () => keys.showModal() });
}
bindKeys({
  Escape: () => {
    const open = document.querySelector("details[open]");
    if (open) { open.open = false; open.querySelector("summary").focus(); } else if (document.activeElement !== document.body) document.activeElement.blur();
  },
});
