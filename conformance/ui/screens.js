// The screens of the dashboard, each with the heading that it must show.

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
