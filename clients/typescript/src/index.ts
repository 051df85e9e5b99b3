// A client of Posse's live agents, for Node and browsers.
export type * from "./api.js";
export { Client } from "./client.js";
export type { ClientOptions, Decision, Note, PullOptions, Reward, RewardResult } from "./client.js";
export type { ConnectionOptions } from "./connection.js";
export { AgentError, Conflict, Unavailable, Unknown } from "./errors.js";
