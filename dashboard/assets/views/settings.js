// What the broker was told: configuration, limits, users, cluster; and its topology as a file.

import { get, post } from "../api.js";
import { form, toast } from "../dialog.js";
import { h } from "../dom.js";
import { plural } from "../format.js";
import { renew } from "../main.js";
import { fields, head, settingsList } from "./parts.js";

export function settings() {
  const boxes = h("div.columns");
  let shown = "";
  return {
    element: [
      head("Settings", {
        text: "They are changed in the configuration file; this page shows what is in effect.",
        actions: [
          h("button", { type: "button", onclick: save }, "Export topology"),
          h("button", { type: "button", onclick: importForm }, "Import topology"),
        ],
      }),
      boxes,
    ],
    async refresh() {
      const [config, limits, users, cluster] = await Promise.all(["/config", "/limits", "/users", "/cluster"].map(get));
      const now = JSON.stringify([config, limits, users, cluster]);
      if (now === shown) return;
      shown = now;
      const box = (title, content) => h("section.card", { "aria-label": title }, h("h2", title), content);
      const sections = Object.entries(config).filter(([name, value]) => name !== "limits" && isTable(value) && Object.keys(value).length);
      boxes.replaceChildren(
        ...sections.map(([name, values]) => box(title(name), settingsList(values))),
        box("Limits", settingsList(limits)),
        box("Users", users.length ? h("ul", users.map((user) => h("li", user.name))) : h("p.muted", "No users: nobody has to log in.")),
        box("Cluster", cluster.enabled ? fields([["Node", cluster.node_id], ["Nodes", String(cluster.nodes.length)]]) : h("p.muted", "This broker stands alone.")));
    },
  };
}

function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function title(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

async function save() {
  try {
    const text = JSON.stringify(await get("/definitions"), null, 2);
    const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "definitions.json" });
    link.click();
    URL.revokeObjectURL(link.href);
    toast("The topology was saved as definitions.json.");
  } catch (problem) {
    toast(problem.message, true);
  }
}

function importForm() {
  form({
    title: "Import topology",
    text: "Makes what is missing and leaves what is there. One conflict, and nothing is made.",
    action: "Import",
    wide: true,
    fields: [{ name: "text", label: "Definitions", kind: "area", required: true, hint: "the document that “Export topology” saves" }],
    async submit({ text }) {
      let body;
      try {
        body = JSON.parse(text);
      } catch (problem) {
        throw new Error(`This is no JSON: ${problem.message}`);
      }
      const { created } = await post("/definitions", body);
      await renew();
      return `Created ${plural(created.queues, "queue")}, ${plural(created.exchanges, "exchange")}, ${plural(created.bindings, "binding")}, ${plural(created.groups, "group")} and ${plural(created.schemas, "schema")}.`;
    },
  });
}
