// The screens of the dashboard, each with the heading that it must show, and the dialogs that they open.

export const SCREENS = {
  overview: ["overview", "Overview"],
  queues: ["queues", "Queues"],
  "queue metrics": ["queues/orders", "orders"],
  "queue messages": ["queues/orders/messages", "orders"],
  "queue consumers": ["queues/orders/consumers", "orders"],
  "queue bindings": ["queues/orders/bindings", "orders"],
  "queue dead letters": ["queues/orders/dead-letters", "orders"],
  "queue schema": ["queues/orders/schema", "orders"],
  exchanges: ["exchanges", "Exchanges"],
  exchange: ["exchanges/shop", "shop"],
  connections: ["connections", "Connections"],
  schemas: ["schemas", "Schemas"],
  settings: ["settings", "Settings"],
};

/** A screen, and the button on it that opens a form. */
export const FORMS = [
  ["queues", "New queue"], ["queues", "New stream"], ["queues/orders", "Publish"], ["queues/orders", "Move"], ["queues/orders", "Redrive"],
  ["queues/orders", "Purge"], ["queues/orders/messages", "Message at 0"], ["queues/orders/bindings", "New binding"],
  ["queues/orders/dead-letters", "Retry all"], ["queues/orders/schema", "Register schema"], ["exchanges", "New exchange"],
  ["exchanges/shop", "Publish"], ["settings", "Import topology"], ["overview", "Keys and help"],
];

/** A screen, the button on it that destroys something, and the name that must be typed first. */
export const DESTRUCTIVE = [
  ["queues/orders", "Move", "orders"], ["queues/orders", "Redrive", "orders"], ["queues/orders", "Purge", "orders"], ["queues/orders", "Delete", "orders"],
  ["queues/orders/dead-letters", "Delete all", "orders"], ["queues/payments/bindings", "Unbind", "payments"], ["exchanges/shop", "Delete", "shop"],
];
