// Pause, resume, drain and enable from a worker's card, for who may. The prover executes and answers; the card shows both.

import { data, el, hide, text } from "./dom.js";

const WORDS = { pause: "Pause", resume: "Resume", drain: "Drain", enable: "Enable" };
// from every other wish: resume; the admin has what is rarely asked
const OFFERED = { enabled: ["pause", "drain"], paused: ["resume", "drain"], disabled: ["enable"] };
const GONE = new Set(["lost", "stopped"]);

/** Whether this person may command workers (the server asks again). */
export const allowed = () => document.getElementById("live")?.dataset.commands === "yes";

/** The row of buttons of a card: {node, buttons, said}. */
export function makeActions(id) {
  const said = el("span", { class: "said", role: "status" });
  const buttons = Object.entries(WORDS).map(([action, word]) => {
    const button = el("button", { class: "button small", type: "button" }, word);
    data(button, "action", action);
    button.addEventListener("click", () => ask(id, action, said));
    return button;
  });
  return { node: el("div", { class: "worker-actions" }, ...buttons, said), buttons, said };
}

/** Show what makes sense now, and the command that waits for its answer. */
export function fillActions(actions, state, id, name, wish, doing) {
  hide(actions.node, !allowed() || GONE.has(doing));
  const offered = OFFERED[wish] ?? ["resume"];
  for (const button of actions.buttons) {
    hide(button, !offered.includes(button.dataset.action));
    button.setAttribute("aria-label", `${button.textContent} ${name}`);
  }
  const last = lastCommand(state, id);
  if (last === null || last === actions.shown) return;
  actions.shown = last;
  const { action, by, outcome } = last.detail;
  const waits = last.state === "pending" || last.state === "taken";
  text(actions.said, waits ? `${action} asked by ${by}` : last.state === "refused" ? `${action} refused: ${outcome ?? ""}` : "");
}

function lastCommand(state, id) {
  let last = null;
  for (const view of state.views.command.values()) {
    if (view.detail.target === id && (last === null || (view.times.pending ?? 0) >= (last.times.pending ?? 0))) last = view;
  }
  return last;
}

async function ask(id, action, said) {
  if (action === "drain" && !confirm(`Drain ${id}? It finishes what it holds and takes nothing new until it is resumed.`)) return;
  const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
  const path = id.split("/").map(encodeURIComponent).join("/");
  try {
    const answer = await fetch(`/workers/${path}/${action}`, {
      method: "POST", headers: { "X-CSRFToken": token, Accept: "application/json" }, redirect: "manual",
    });
    const body = answer.headers.get("Content-Type")?.startsWith("application/json") ? await answer.json() : {};
    text(said, answer.ok ? `${action} asked` : body.message ?? `refused (${answer.status})`);
  } catch {
    text(said, "the site cannot be reached");
  }
}
