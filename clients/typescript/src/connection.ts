// Requests to an agent, with retries: a restart of an agent is a wait and not an error.
import { AgentError, Unavailable, makeError } from "./errors.js";

/** How a client reaches its agent; times are in seconds. */
export interface ConnectionOptions {
  /** Seconds that one attempt may take (5). */
  timeout?: number;
  /** Seconds for which requests are repeated that reach no agent, or one whose store fails (15). */
  patience?: number;
  /** The number of attempts, in place of `patience`. */
  attempts?: number;
  /** Seconds before the second attempt (0.1), then twice as many each time, up to 2. */
  backoff?: number;
  /** The experiment, if the agent has several. */
  experiment?: string;
  /** The application's token, or for pin, pause, resume and reload the operators'. */
  token?: string;
  /** Another `fetch`, for example one with a proxy. */
  fetch?: typeof fetch;
}

// a failing store, or a proxy before an agent that restarts
const RETRIED_STATUSES = [502, 503, 504];
const MAX_BACKOFF = 2;

export class Connection {
  readonly url: string;
  private readonly base: string;
  private readonly headers: Record<string, string>;
  private readonly timeout: number;
  private readonly patience: number;
  private readonly attempts: number | undefined;
  private readonly backoff: number;
  private readonly fetch: typeof fetch;

  constructor(url: string, options: ConnectionOptions) {
    const parts = new URL(url);
    if (!/^https?:$/.test(parts.protocol)) {
      throw new TypeError(`url must be http://HOST:PORT or https://HOST:PORT, got ${url}`);
    }
    this.url = parts.href.replace(/\/$/, "");
    this.base = `${this.url}/v1`;
    if (options.experiment !== undefined) {
      this.base += `/experiments/${encodeURIComponent(options.experiment)}`;
    }
    this.headers = { "Content-Type": "application/json" };
    if (options.token !== undefined) this.headers["Authorization"] = `Bearer ${options.token}`;
    this.timeout = validateSeconds("timeout", options.timeout ?? 5);
    this.patience = validateSeconds("patience", options.patience ?? 15);
    this.backoff = validateSeconds("backoff", options.backoff ?? 0.1);
    this.attempts = options.attempts;
    if (this.attempts !== undefined && !(this.attempts >= 1)) {
      throw new RangeError(`attempts must be at least 1, got ${this.attempts}`);
    }
    this.fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /**
   * Send a request until an agent answers it. Every request is idempotent, so a lost answer and a
   * lost request need no distinction.
   *
   * path: below /v1 or the experiment; below the agent itself if it begins with "/v1/".
   * deadline: seconds after which the caller has to go on; once: try only once.
   */
  async send<T>(
    method: "GET" | "POST" | "DELETE",
    path: string,
    body?: unknown,
    deadline = Infinity,
    once = false,
  ): Promise<T> {
    const url = (path.startsWith("/v1/") ? this.url : this.base) + path;
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const began = now();
    for (let attempt = 1; ; attempt++) {
      const left = began + deadline - now();
      const timeout = Math.max(Math.min(this.timeout, left), 0.001);
      let failure: Unavailable;
      let retryAfter = 0;
      const abort = new AbortController();
      const late = new Error(`no answer in ${timeout.toPrecision(2)} s`);
      const timer = setTimeout(() => abort.abort(late), 1000 * timeout);
      try {
        const request = { method, headers: this.headers, signal: abort.signal, ...content };
        const answer = await this.fetch(url, request);
        const text = await answer.text();
        if (!RETRIED_STATUSES.includes(answer.status)) return this.decode<T>(answer, text);
        retryAfter = Number(answer.headers.get("Retry-After") ?? 0) || 0;
        failure = new Unavailable(
          readSentence(text) ?? `${this.url} is unavailable: try later`,
          answer.status,
        );
      } catch (error) {
        if (error instanceof AgentError) throw error;
        failure = new Unavailable(
          `no agent answers at ${this.url} (${describe(error)}): is it running?`,
          0,
        );
      } finally {
        clearTimeout(timer);
      }
      // jitter, so that clients that failed together do not retry together
      const pause = Math.max(retryAfter, this.backoff * 2 ** Math.min(attempt - 1, 60));
      const wait = Math.min(pause, MAX_BACKOFF) * (1 + Math.random() / 2);
      const then = now() - began + wait;
      const enough =
        this.attempts === undefined ? then > this.patience : attempt >= this.attempts;
      if (enough || once || then >= deadline) throw failure;
      await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
    }
  }

  private decode<T>(answer: Response, text: string): T {
    if (answer.status === 200) {
      try {
        return JSON.parse(text) as T;
      } catch {
        // an answer of 200 that is not JSON comes from another server, such as a login page
      }
    }
    const sentence = readSentence(text);
    if (sentence === undefined) {
      const problem = `${this.url} answered ${answer.status}: is this the address of an agent?`;
      throw new Unavailable(problem, answer.status);
    }
    throw makeError(answer.status, sentence);
  }
}

function now(): number {
  return performance.now() / 1000;
}

function validateSeconds(name: string, value: number): number {
  if (!(value >= 0)) throw new RangeError(`${name} must be seconds, at least 0, got ${value}`);
  return value;
}

function readSentence(text: string): string | undefined {
  try {
    const sentence: unknown = (JSON.parse(text) as { error?: unknown }).error;
    return typeof sentence === "string" ? sentence : undefined;
  } catch {
    return undefined;
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause: unknown = error.cause;
  return cause instanceof Error && cause.message ? cause.message : error.message || error.name;
}
