// A client by the types that openapi-typescript makes of /openapi.json; tsc --strict compiles it.
import type { components, paths } from "./posse";

type DecisionRequest = components["schemas"]["DecisionRequest"];
type Answer<Path extends keyof paths, Method extends keyof paths[Path]> =
  paths[Path][Method] extends { responses: { 200: { content: { "application/json": infer T } } } } ? T : never;

// every field is optional, and a context has fields of any name
export const nothing: DecisionRequest = {};
export const everything: DecisionRequest = {
  decision: "visit-1",
  allowed: ["red", "green"],
  context: { country: "de", basket: 12.5, returning: true },
  visitor: "u-17",
};

export async function visit(url: string, token: string): Promise<string> {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
  const asked = await fetch(`${url}/v1/decisions`, { method: "POST", headers, body: JSON.stringify(nothing) });
  const decision = (await asked.json()) as Answer<"/v1/decisions", "post">;
  const body: components["schemas"]["RewardRequest"] = { reward: 1 };
  await fetch(`${url}/v1/decisions/${decision.decision}/reward`, { method: "POST", headers, body: JSON.stringify(body) });
  const events = (await (await fetch(`${url}/v1/events`, { headers })).json()) as Answer<"/v1/events", "get">;
  return `${decision.arm} with probability ${decision.probability.toFixed(2)}, ${events.events.length} events`;
}
