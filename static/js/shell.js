// What every page has: the colour switch, the time zone switch, times in that zone, buttons that copy.

import { moment, zoneName } from "./format.js";
import { copy } from "./label.js";
import { recall, remember } from "./store.js";

const THEMES = ["auto", "light", "dark"];
const ZONES = ["utc", "local"];

export const settings = { zone: recall("zone", "utc", ZONES) };

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme-word").textContent = theme;
  const words = { auto: "as the system says", light: "light", dark: "dark" };
  document.getElementById("theme").setAttribute("aria-label", `Colours: ${words[theme]}`);
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(recall("theme", "auto", THEMES)) + 1) % THEMES.length];
  remember("theme", theme);
  showTheme(theme);
  document.dispatchEvent(new Event("themechange"));
}

/** Give every <time datetime> (also in hidden parts) its text in the chosen zone. */
function showTimes() {
  document.getElementById("zone").textContent = zoneName(settings.zone);
  for (const node of document.querySelectorAll("time[datetime]")) {
    const at = Date.parse(node.dateTime);
    node.textContent = moment(at, settings.zone, node.dataset.parts ?? "both");
    node.title = `${moment(at, settings.zone)} ${zoneName(settings.zone, at)}`;
  }
}

function nextZone() {
  settings.zone = settings.zone === "utc" ? "local" : "utc";
  remember("zone", settings.zone);
  showTimes();
  document.dispatchEvent(new Event("zonechange"));
}

async function copyFrom(button) {
  await copy(button.dataset.copy);
  const word = button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = word; }, 1200);
}

document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("zone").addEventListener("click", nextZone);
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (button && button.textContent !== "copied") copyFrom(button);
});
showTheme(recall("theme", "auto", THEMES));
showTimes();
