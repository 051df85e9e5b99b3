// Uses the built client against a real agent, and says on the last line that all was as expected.
// Arguments: the agent's address, its token, that of operators, an address at which nobody answers,
// and a folder into which it writes "stop" and "start" to have the agent stopped and started.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { writeFile } from "node:fs/promises";
import { AgentError, Client, Conflict, Unavailable, Unknown } from "../dist/index.js";

const [url, token, operatorToken, away, folder] = process.argv.slice(2);
const ARMS = ["red", "green", "blue"];
const client = new Client(url, { token, experiment: "checkout", patience: 60 });
const warnings = [];
console.warn = (line) => warnings.push(line);

async function test(name, run) {
  await run();
  console.log(`ok ${name}`);
}

await test("pull, update, repeat, conflict", async () => {
  const decision = await client.pull();
  assert.ok(ARMS.includes(decision.arm));
  assert.ok(decision.probability > 0 && decision.recorded);
  assert.equal(await client.update(decision, 1), true);
  assert.equal(await client.update(decision.id, 1), false);
  await assert.rejects(client.update(decision, 0), (error) => {
    assert.ok(error instanceof Conflict && error instanceof AgentError);
    assert.equal(error.status, 409);
    assert.match(error.message, /has the reward 1/);
    return true;
  });
  await assert.rejects(client.update("nobody", 0), Unknown);
  for (const odd of ["a/b?c#d", "..", ".", "ä %2F"]) {
    await assert.rejects(client.update(odd, 0), Unknown);
  }
  await assert.rejects(client.update(decision, Number.NaN), RangeError);
  await assert.rejects(client.update("", 1), Unknown);
});

await test("own ids, allowed arms, visitors, contexts", async () => {
  const first = await client.pull({ decision: "mine", allowed: ["green"] });
  assert.equal(first.arm, "green");
  assert.deepEqual(await client.pull({ decision: "mine" }), first);
  await assert.rejects(client.pull({ decision: "mine", allowed: ["red"] }), Conflict);
  await assert.rejects(client.pull({ allowed: ["pink"] }), /pink/);
  await assert.rejects(client.pull({ decision: "a b" }), /letters/);
  const one = await client.pull({ visitor: "u-17" });
  assert.equal((await client.pull({ visitor: "u-17" })).arm, one.arm);
  const shop = new Client(url, { token, experiment: "shop" });
  assert.ok(ARMS.includes((await shop.pull({ context: { country: "de" } })).arm));
  await assert.rejects(shop.pull({ context: {} }), /country is missing/);
  assert.ok("mean" in (await shop.arms({ country: "de" })).red);
});

await test("the life of a decision", async () => {
  const decision = await client.pull({ activate: false, visitor: "u-17" });
  assert.equal((await client.decision(decision)).state, "inactive");
  assert.equal(await client.activate(decision), true);
  assert.equal(await client.activate(decision.id), false);
  assert.equal((await client.decision(decision)).state, "open");
  assert.equal(await client.cancel(decision), true);
  await assert.rejects(client.update(decision, 1), Conflict);
  assert.equal((await client.erase(decision)).erased, 1);
  await assert.rejects(client.decision(decision), Unknown);
  await assert.rejects(client.activate("nobody"), Unknown);
  await client.pull({ visitor: "u-16" });
  assert.equal((await client.eraseVisitor("u-16")).erased, 1);
});

await test("metrics and uplift", async () => {
  const decision = await client.pull();
  assert.equal(await client.measure(decision, { latency: 212 }), true);
  assert.equal(await client.measure(decision, { latency: 212 }), false);
  await assert.rejects(client.measure(decision, { latency: 213 }), Conflict);
  await assert.rejects(client.measure(decision, { weight: 1 }), /weight/);
  assert.equal(await client.update(decision, 1, { latency: 212 }), true);
  assert.deepEqual((await client.decision(decision)).metrics, { latency: 212 });
  assert.ok((await client.guardrails()).some(({ metric }) => metric === "latency"));
  assert.equal((await client.uplift()).control_arm, "red");
});

await test("many at once, and steps", async () => {
  const visitors = Array.from({ length: 1001 }, (_, i) => ({ visitor: `w-${i}` }));
  const decisions = await client.pullAll(visitors);
  assert.equal(decisions.length, 1001);
  const results = await client.updateAll([
    ...decisions.slice(0, 600).map((decision) => [decision, 0]),
    ["nobody", 1],
    [decisions[0], 1],
  ]);
  assert.equal(results.filter((result) => result === true).length, 600);
  assert.ok(results[600] instanceof Unknown && results[601] instanceof Conflict);
  const { decision, outcomes } = await client.step([[decisions[700], 1]], { visitor: "u-17" });
  assert.deepEqual(outcomes, [true]);
  assert.ok(ARMS.includes(decision.arm));
  const many = await client.stepAll([[decision, 1], [decision, 1]], visitors.slice(0, 501));
  assert.deepEqual(many.outcomes, [true, false]);
  assert.equal(many.decisions.length, 501);
  const rest = decisions.slice(100, 700).map((d) => [d, 0]);
  assert.equal((await client.step(rest)).outcomes.length, 600);
});

await test("views and operators", async () => {
  assert.deepEqual(Object.keys(await client.arms()).sort(), [...ARMS].sort());
  assert.ok("checkout" in (await client.experiments()).experiments);
  assert.ok("agents" in (await client.network()));
  assert.ok((await client.audit()).counted >= 600);
  assert.ok("arms" in (await client.history("month")));
  await assert.rejects(client.verdict(), Unknown);
  await assert.rejects(client.pin("red"), (error) => error.status === 401);
  const operator = new Client(url, { token: operatorToken, experiment: "checkout" });
  const note = { by: "ada", reason: "a test" };
  assert.equal((await operator.pin("red", note)).pinned, "red");
  assert.match((await client.events()).at(-1).text, /red.*ada.*a test/);
  assert.equal((await client.pull({ visitor: "u-1" })).arm, "red");
  assert.deepEqual((await operator.pause("blue")).paused, ["blue"]);
  assert.equal((await operator.resume()).pinned, null);
  assert.equal((await client.controls()).pinned, null);
  assert.match((await operator.reload()).changed, /nothing changed/);
});

await test("bad addresses, tokens and options", async () => {
  await assert.rejects(new Client(url, { token: "wrong-token-of-16" }).arms(), /token/);
  await assert.rejects(new Client(url, { token }).pull(), /experiment/);
  assert.throws(() => new Client("nonsense"), TypeError);
  assert.throws(() => new Client("ftp://x"), TypeError);
  assert.throws(() => new Client(url, { patience: -1 }), RangeError);
  assert.throws(() => new Client(url, { attempts: 0 }), RangeError);
  assert.throws(() => new Client(url, { fallbackAfter: 0 }), RangeError);
  const page = async () => new Response("<html>", { status: 200 });
  await assert.rejects(new Client(url, { fetch: page }).arms(), /is this the address of an agent/);
});

await test("nobody answers", async () => {
  const impatient = new Client(away, { patience: 0.3 });
  await assert.rejects(impatient.pull(), (error) => {
    assert.ok(error instanceof Unavailable);
    assert.match(error.message, /no agent answers at http.*: is it running/);
    return true;
  });
  let attempts = 0;
  const failing = async () => {
    attempts += 1;
    return new Response('{"error": "the store cannot be written"}', { status: 503 });
  };
  const thrice = new Client(url, { fetch: failing, attempts: 3, backoff: 0.001 });
  await assert.rejects(thrice.pull(), /the store cannot be written/);
  assert.equal(attempts, 3);
  const slow = (_, { signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  await assert.rejects(new Client(url, { fetch: slow, timeout: 0.05, attempts: 1 }).pull(), Unavailable);
});

await test("a fallback", async () => {
  const hasty = new Client(away, { fallback: "red", fallbackAfter: 0.2 });
  const decision = await hasty.pull({ decision: "lost" });
  assert.deepEqual(decision, { id: "", arm: "red", probability: 1, recorded: false });
  assert.equal(await hasty.update(decision, 1), false);
  assert.equal(await hasty.update("lost", 1), false);
  assert.equal(await hasty.activate(decision), false);
  await assert.rejects(async () => hasty.decision(decision), /recorded nowhere/);
  assert.equal((await hasty.pullAll([{}, {}])).length, 2);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0], /"red" is played meanwhile, and recorded nowhere/);
  await assert.rejects(hasty.pull({ allowed: ["green"] }), Unavailable);
  await assert.rejects(hasty.arms(), Unavailable);
});

await test("a restart is a wait", async () => {
  const before = await client.pull({ decision: "before" });
  await writeFile(`${folder}/stop`, "");
  const impatient = new Client(url, { token, experiment: "checkout", attempts: 1, timeout: 1 });
  for (;;) {
    try {
      await impatient.arms();
      await sleep(50);
    } catch (error) {
      assert.ok(error instanceof Unavailable, String(error));
      break;
    }
  }
  const waiting = Promise.all([client.update(before, 1), client.pull({ decision: "before" })]);
  await writeFile(`${folder}/start`, "");
  const [stored, after] = await waiting;
  assert.equal(stored, true);
  assert.deepEqual(after, before);
});

console.log("all is as expected");
