// What may be asked of a worker from its card, as the page lists it. The prover executes and answers; the card shows both.

import { attribute, data, el, hide, text } from "./dom.js";

const GONE = new Set(["lost", "stopped"]);

const served = document.getElementById("actions");
/** The actions of cards, for who may command workers (the server asks again): {action, from, meaning, confirm}. */
const ACTIONS = served ? JSON.parse(served.textContent) : null;

/** The row of buttons of a card: {node, buttons, said}. */
export function makeActions(id) {
  const said = el("span", { class: "said", role: "status" });
  const buttons = (ACTIONS ?? []).map((one) => {
    const button = el("button", { class: "button small", type: "button" }, word(one.action));
    data(button, "action", one.action);
    button.addEventListener("click", () => ask(id, one, said));
    return button;
  });
  return { node: el("div", { class: "worker-actions" }, ...buttons, said), buttons, said };
}

/** Show what makes sense now, and the command that waits for its answer. */
export function fillActions(actions, state, id, name, wish, doing) {
  hide(actions.node, ACTIONS === null || GONE.has(doing));
  for (const [i, button] of actions.buttons.entries()) {
    hide(button, !ACTIONS[i].from.includes(wish));
    attribute(button, "aria-label", `${button.textContent} ${name}`);
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

const word = (action) => action[0].toUpperCase() + action.slice(1);

async function ask(id, { action, meaning, confirm: twice }, said) {
  if (twice && !confirm(`${word(action)} ${id}? It will ${meaning}.`)) return;
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
