// A client of one agent: pull an arm, play it, send the reward.
import type {
  ArmRequest,
  ArmStatus,
  Audit,
  ControlsAnswer,
  DecisionAnswer,
  DecisionRequest,
  DecisionStatusAnswer,
  DecisionsAnswer,
  ErasureAnswer,
  Event,
  EventsAnswer,
  ExperimentsAnswer,
  GuardrailsAnswer,
  History,
  ItemError,
  Judgement,
  MetricStatus,
  MetricsAnswer,
  NetworkAnswer,
  ReloadAnswer,
  RewardAnswer,
  RewardItem,
  RewardsAnswer,
  StepsAnswer,
  TransitionAnswer,
  Uplift,
} from "./api.js";
import { Connection, type ConnectionOptions } from "./connection.js";
import { type AgentError, Unavailable, Unknown, makeError } from "./errors.js";

const MAX_BATCH_ITEMS = 500; // items of one request
const MAX_REMEMBERED_IDS = 100_000; // of fallbacks, of which the oldest is forgotten first

export interface ClientOptions extends ConnectionOptions {
  /** The arm that `pull` returns when no agent answers in time; it is recorded nowhere. */
  fallback?: string;
  /** Seconds after which the fallback is played (1). */
  fallbackAfter?: number;
}

/** An arm to play and the probability with which it was chosen. */
export interface Decision {
  id: string;
  arm: string;
  probability: number;
  /** False: a fallback, which no agent knows of. */
  recorded: boolean;
}

/** What a decision is for; all may be left out. */
export type PullOptions = Pick<
  DecisionRequest,
  "allowed" | "decision" | "context" | "visitor" | "activate"
>;

/** Who gives a command, and why, for the log of events. */
export type Note = Pick<ArmRequest, "by" | "reason">;

/** A decision, or its id, and its reward. */
export type Reward = readonly [Decision | string, number];

/** What `update` returns for a reward, or the error that it would throw. */
export type RewardResult = boolean | AgentError;

export class Client {
  private readonly connection: Connection;
  private readonly fallback: string | undefined;
  private readonly fallbackAfter: number;
  private readonly fallbackIds = new Set<string>();
  private agentAway = false; // when last asked: then it is tried only once

  constructor(url: string, options: ClientOptions = {}) {
    this.connection = new Connection(url, options);
    this.fallback = options.fallback;
    this.fallbackAfter = options.fallbackAfter ?? 1;
    if (!(this.fallbackAfter > 0)) {
      throw new RangeError(`fallbackAfter must be seconds, above 0, got ${this.fallbackAfter}`);
    }
  }

  /** Choose an arm, of all or of those allowed; the same id gets the same answer. */
  async pull(options: PullOptions = {}): Promise<Decision> {
    const request = makeRequest(options);
    const path = "/decisions";
    const [decision] = await this.orFallBack([options], async (deadline) => [
      readDecision(await this.send<DecisionAnswer>("POST", path, request, deadline)),
    ]);
    return decision!;
  }

  /** Many decisions at once, one for each of the options. */
  async pullAll(options: readonly PullOptions[]): Promise<Decision[]> {
    // The ids are drawn here, so that a retry repeats them and is recognised.
    const requests = options.map(makeRequest);
    return this.orFallBack(options, async (deadline) => {
      const decisions: Decision[] = [];
      for (const part of split(requests)) {
        const body = { decisions: part };
        const path = "/decisions/batch";
        const answer = await this.send<DecisionsAnswer>("POST", path, body, deadline);
        decisions.push(...answer.decisions.map(readDecision));
      }
      return decisions;
    });
  }

  /**
   * Send the reward of a decision; when this resolves, it is on disk. False if it was sent before,
   * or the decision is a fallback: then nothing is sent.
   *
   * metrics: further numbers of it, by the names in the settings of the experiment.
   */
  async update(
    decision: Decision | string,
    reward: number,
    metrics?: Record<string, number>,
  ): Promise<boolean> {
    const item = this.makeItem([decision, reward]);
    if (item === undefined) return false;
    const path = `/decisions/${encodeId(item.decision)}/reward`;
    const body = metrics === undefined ? { reward } : { reward, metrics };
    const answer = await this.send<RewardAnswer>("POST", path, body);
    return !answer.repeated;
  }

  /** Send metrics of a decision, before or after its reward; false if all were sent before. */
  async measure(decision: Decision | string, metrics: Record<string, number>): Promise<boolean> {
    const id = this.findId(decision);
    if (id === undefined) return false;
    const path = `/decisions/${encodeId(id)}/metrics`;
    const answer = await this.send<MetricsAnswer>("POST", path, { metrics });
    return !answer.repeated;
  }

  /**
   * Say that the arm of an inactive decision was shown: it counts from now on. False if it was
   * active before, or the decision is a fallback: then nothing is sent.
   */
  activate(decision: Decision | string): Promise<boolean> {
    return this.changeDecision(decision, "activate");
  }

  /** Say that the arm of a decision was not shown: what it counted is taken back. */
  cancel(decision: Decision | string): Promise<boolean> {
    return this.changeDecision(decision, "cancel");
  }

  /** A decision: its arm, state, times, context and reward. */
  decision(decision: Decision | string): Promise<DecisionStatusAnswer> {
    return this.send("GET", `/decisions/${encodeId(this.requireId(decision))}`);
  }

  /** Delete a decision from the store of the agent; an open one is cancelled first. */
  erase(decision: Decision | string): Promise<ErasureAnswer> {
    return this.send("DELETE", `/decisions/${encodeId(this.requireId(decision))}`);
  }

  /** Delete all decisions for a visitor from the store of the agent, as `erase` does. */
  eraseVisitor(visitor: string): Promise<ErasureAnswer> {
    return this.send("POST", "/erasures", { visitor });
  }

  /** Many rewards at once: for each what `update` returns, or the error it would throw. */
  async updateAll(rewards: readonly Reward[]): Promise<RewardResult[]> {
    const items = rewards.map((reward) => this.makeItem(reward));
    const results = await this.sendRewards(items.filter((item) => item !== undefined));
    return insertSkipped(items, results);
  }

  /** Rewards and the next decision in one request and one commit; there is no fallback. */
  async step(
    rewards: readonly Reward[],
    options: PullOptions = {},
  ): Promise<{ decision: Decision; outcomes: RewardResult[] }> {
    const { answer, outcomes } = await this.sendStep(rewards, makeRequest(options));
    return { decision: readDecision(answer.decision!), outcomes };
  }

  /** Rewards and many new decisions; the first 500 of each in one commit. */
  async stepAll(
    rewards: readonly Reward[],
    options: readonly PullOptions[],
  ): Promise<{ decisions: Decision[]; outcomes: RewardResult[] }> {
    const first = options.slice(0, MAX_BATCH_ITEMS).map(makeRequest);
    const { answer, outcomes } = await this.sendStep(rewards, first);
    const decisions = answer.decisions!.map(readDecision);
    decisions.push(...(await this.pullAll(options.slice(MAX_BATCH_ITEMS))));
    return { decisions, outcomes };
  }

  /** The estimate of every arm: on average, or at a context, which may omit fields. */
  arms(context?: Record<string, unknown>): Promise<Record<string, ArmStatus>> {
    return context === undefined
      ? this.send("GET", "/arms")
      : this.send("POST", "/arms", { context });
  }

  /** Whether the experiment may stop, and why; `Unknown` if it has no `stop`. */
  verdict(): Promise<Judgement> {
    return this.send("GET", "/verdict");
  }

  /** What the bandit earned beyond the control arm; `Unknown` without a holdout. */
  uplift(): Promise<Uplift> {
    return this.send("GET", "/uplift");
  }

  /** Every metric of every arm, and which limits are breached. */
  async guardrails(): Promise<MetricStatus[]> {
    return (await this.send<GuardrailsAnswer>("GET", "/guardrails")).metrics;
  }

  /** Decisions counted beside those in the evidence; `Unknown` with a half-life. */
  audit(): Promise<Audit> {
    return this.send("GET", "/audit");
  }

  /** Decisions and rewards of every arm over time, and events. */
  history(scale: "day" | "month" | "year" = "day"): Promise<History> {
    return this.send("GET", `/history/${scale}`);
  }

  /** The neighbours, all known agents and links, and refusals by reason. */
  network(): Promise<NetworkAnswer> {
    return this.send("GET", "/v1/network");
  }

  /** The experiments of the agent. */
  experiments(): Promise<ExperimentsAnswer> {
    return this.send("GET", "/v1/experiments");
  }

  /** Pinned and paused arms, and whose controls they are. */
  controls(): Promise<ControlsAnswer> {
    return this.send("GET", "/controls");
  }

  /** The newest events of the experiment, oldest first. */
  async events(): Promise<Event[]> {
    return (await this.send<EventsAnswer>("GET", "/events")).events;
  }

  /** Play only this arm, until it is resumed; for operators. */
  pin(arm: string, note: Note = {}): Promise<ControlsAnswer> {
    return this.send("POST", "/pin", { arm, ...note });
  }

  /** Stop playing an arm, until it is resumed; for operators. */
  pause(arm: string, note: Note = {}): Promise<ControlsAnswer> {
    return this.send("POST", "/pause", { arm, ...note });
  }

  /** Undo pins and pauses, of an arm or of all; for operators. */
  resume(arm?: string, note: Note = {}): Promise<ControlsAnswer> {
    return this.send("POST", "/resume", arm === undefined ? note : { arm, ...note });
  }

  /** Leave an agent that is gone out of headlines and drawings; for operators. */
  forget(agent: string, note: Note = {}): Promise<NetworkAnswer> {
    return this.send("POST", "/v1/forget", { agent, ...note });
  }

  /** Make the agent read its agent.toml again; for operators. */
  reload(): Promise<ReloadAnswer> {
    return this.send("POST", "/v1/reload", {});
  }

  private send<T>(
    method: "GET" | "POST" | "DELETE",
    path: string,
    body?: unknown,
    deadline?: number,
  ): Promise<T> {
    const once = deadline !== undefined && this.agentAway;
    return this.connection.send<T>(method, path, body, deadline, once);
  }

  private async changeDecision(
    decision: Decision | string,
    transition: "activate" | "cancel",
  ): Promise<boolean> {
    const id = this.findId(decision);
    if (id === undefined) return false;
    const path = `/decisions/${encodeId(id)}/${transition}`;
    const answer = await this.send<TransitionAnswer>("POST", path, {});
    return !answer.repeated;
  }

  private async sendRewards(items: readonly RewardItem[]): Promise<RewardResult[]> {
    const results: RewardResult[] = [];
    for (const part of split(items)) {
      const answer = await this.send<RewardsAnswer>("POST", "/rewards", { rewards: part });
      results.push(...answer.rewards.map(readResult));
    }
    return results;
  }

  private async sendStep(
    rewards: readonly Reward[],
    decide: DecisionRequest | DecisionRequest[],
  ): Promise<{ answer: StepsAnswer; outcomes: RewardResult[] }> {
    const items = rewards.map((reward) => this.makeItem(reward));
    const recorded = items.filter((item) => item !== undefined);
    // The last rewards go with the request and the earlier ones before it, in the caller's order.
    const first = Math.max(0, recorded.length - MAX_BATCH_ITEMS);
    const results = await this.sendRewards(recorded.slice(0, first));
    const body = { rewards: recorded.slice(first), decide };
    const answer = await this.send<StepsAnswer>("POST", "/steps", body);
    results.push(...answer.rewards.map(readResult));
    return { answer, outcomes: insertSkipped(items, results) };
  }

  /** Make the item of a reward; undefined for a fallback, which no agent knows. */
  private makeItem([decision, reward]: Reward): RewardItem | undefined {
    if (typeof reward !== "number" || !Number.isFinite(reward)) {
      throw new RangeError(`reward must be a finite number, got ${reward}`);
    }
    const id = this.findId(decision);
    return id === undefined ? undefined : { decision: id, reward };
  }

  /** The id of a decision; undefined for a fallback, which no agent knows. */
  private findId(decision: Decision | string): string | undefined {
    const id = typeof decision === "string" ? decision : decision.recorded ? decision.id : "";
    const fallback = id === "" || this.fallbackIds.has(id);
    if (fallback && typeof decision === "string" && this.fallback === undefined) {
      throw new Unknown("there is no decision without an id: check the id", 404);
    }
    return fallback ? undefined : id;
  }

  private requireId(decision: Decision | string): string {
    const id = this.findId(decision);
    if (id === undefined) throw new Unknown("a fallback decision is recorded nowhere", 404);
    return id;
  }

  /** Run a call that asks for decisions; where no agent answers, the fallback takes their place. */
  private async orFallBack(
    options: readonly PullOptions[],
    call: (deadline: number | undefined) => Promise<Decision[]>,
  ): Promise<Decision[]> {
    const arm = this.fallback;
    if (arm === undefined) return call(undefined);
    let decisions: Decision[];
    try {
      decisions = await call(this.fallbackAfter);
    } catch (error) {
      const allowed = options.every((one) => one.allowed?.includes(arm) ?? true);
      if (!(error instanceof Unavailable) || !allowed) throw error;
      // once: every visitor is served like this until the agent is back
      if (!this.agentAway) {
        console.warn(`${error.message}; "${arm}" is played meanwhile, and recorded nowhere`);
      }
      this.agentAway = true;
      for (const { decision } of options) if (decision != null) this.rememberFallback(decision);
      return options.map(() => ({ id: "", arm, probability: 1, recorded: false }));
    }
    if (this.agentAway) console.warn("the agent answers again");
    this.agentAway = false;
    for (const { id } of decisions) this.fallbackIds.delete(id);
    return decisions;
  }

  /** The agent may have decided under this id and answered too late: its reward must not be sent. */
  private rememberFallback(id: string): void {
    this.fallbackIds.add(id);
    if (this.fallbackIds.size > MAX_REMEMBERED_IDS) {
      for (const oldest of this.fallbackIds) {
        this.fallbackIds.delete(oldest);
        break;
      }
    }
  }
}

/** Build a request with an id that makes it idempotent, and so safe to repeat. */
function makeRequest(options: PullOptions): DecisionRequest {
  return { ...options, decision: options.decision ?? drawId() };
}

/** Draw 128 random bits; unlike randomUUID, that works on pages without https, too. */
function drawId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function encodeId(id: string): string {
  // as a path segment, such an id would be normalised away
  if (id === "." || id === "..") {
    throw new Unknown(`there is no decision "${id}": check the id`, 404);
  }
  return encodeURIComponent(id);
}

function readDecision(item: DecisionAnswer | ItemError): Decision {
  if ("error" in item) throw makeError(item.status, item.error);
  return { id: item.decision, arm: item.arm, probability: item.probability, recorded: true };
}

function readResult(item: RewardAnswer | ItemError): RewardResult {
  return "error" in item ? makeError(item.status, item.error) : !item.repeated;
}

function insertSkipped(
  items: readonly (RewardItem | undefined)[],
  results: readonly RewardResult[],
): RewardResult[] {
  const sent = results[Symbol.iterator]();
  return items.map((item) => (item === undefined ? false : (sent.next().value as RewardResult)));
}

function split<T>(items: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let first = 0; first < items.length; first += MAX_BATCH_ITEMS) {
    parts.push(items.slice(first, first + MAX_BATCH_ITEMS));
  }
  return parts;
}
