// Dialogs: forms, and the question before something is lost. They are the browser's own, which keeps the focus inside
// and gives it back.

import { h } from "./dom.js";

const toasts = document.getElementById("toasts");
const TOAST_MS = 5000;

/** Says that something was done, or was not. */
export function toast(text, bad = false) {
  const element = h(bad ? "div.toast.bad" : "div.toast", text);
  toasts.append(element);
  setTimeout(() => element.remove(), bad ? TOAST_MS * 2 : TOAST_MS);
}

/** Shows a dialog; it is gone when it is closed. */
export function show(dialog) {
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
}

/**
 * A form. `fields` are { name, label, kind, hint, options, value, required, wide, more }, kind being text, number, area,
 * check or select; those with `more` are folded away. `submit(values)` may throw: its words are shown and the form stays.
 */
export function form({ title, text, fields, action, danger = false, wide = false, submit }) {
  const error = h("div.error", { role: "alert" });
  const main = fields.filter((field) => !field.more).map(control);
  const more = fields.filter((field) => field.more).map(control);
  const send = h(danger ? "button.primary.danger" : "button.primary", { type: "submit" }, action);
  const dialog = h(wide ? "dialog.wide" : "dialog", { "aria-labelledby": "dialog-title" });
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const body = h("form", { method: "dialog", novalidate: true },
    h("h2", { id: "dialog-title" }, title), text ? h("p.muted", text) : null,
    h("div.form-grid", main),
    more.length ? h("details.more", h("summary", "More settings"), h("div.form-grid", more)) : null,
    error, h("div.dialog-foot", cancel, send));
  body.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wrong = [...body.elements].find((element) => element.willValidate && !element.checkValidity());
    if (wrong) {
      error.textContent = `${wrong.dataset.label}: ${wrong.validationMessage}`;
      wrong.closest("details")?.setAttribute("open", "");
      wrong.focus();
      return;
    }
    send.disabled = true;
    try {
      const done = await submit(read(body, fields));
      dialog.close();
      if (done) toast(done);
    } catch (problem) {
      error.textContent = problem.message;
    } finally {
      send.disabled = false;
    }
  });
  dialog.append(body);
  return show(dialog);
}

function control(field) {
  const attributes = { name: field.name, required: field.required, "data-label": field.label, placeholder: field.placeholder, autocomplete: "off", spellcheck: "false" };
  let input;
  if (field.kind === "area") input = h("textarea", attributes, { value: field.value });
  else if (field.kind === "select") input = h("select", attributes, field.options.map((option) => h("option", { value: option, selected: option === field.value }, option || "(default)")));
  else if (field.kind === "check") {
    input = h("input", attributes, { type: "checkbox", checked: field.value === true });
    return h("label.check", input, h("span", field.label, field.hint ? h("span.hint.muted", ` ${field.hint}`) : null));
  } else if (field.kind === "number") input = h("input", attributes, { type: "number", min: 0, step: 1, value: field.value ?? "" });
  else input = h("input", attributes, { type: "text", value: field.value ?? "", list: field.list });
  return h(field.wide || field.kind === "area" ? "label.field.wide" : "label.field", h("span", field.label), input, field.hint ? h("span.hint", field.hint) : null);
}

/** What was filled in; what was left empty is left out. */
function read(body, fields) {
  const values = {};
  for (const { name, kind } of fields) {
    const input = body.elements.namedItem(name);
    if (kind === "check") values[name] = input.checked;
    else if (input.value === "") continue;
    else values[name] = kind === "number" ? Number(input.value) : input.value;
  }
  return values;
}

/** Lets somebody do what cannot be undone only after they have typed the name of what it is done to. */
export function confirm({ title, text, name, action, submit, fields = [] }) {
  const dialog = form({
    title,
    text,
    action,
    danger: true,
    fields: [...fields, { name: "typed", label: `Type “${name}” to go on`, wide: true }],
    submit,
  });
  const input = dialog.querySelector("[name=typed]");
  const send = dialog.querySelector("button[type=submit]");
  const check = () => {
    send.disabled = input.value !== name;
  };
  input.addEventListener("input", check);
  check();
  if (!fields.length) input.focus();
}
