// The errors of a client: what an agent refused, and that no agent answered.

/** An agent refused a request, in one sentence; `status` is that of HTTP. */
export class AgentError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** There is no such decision, experiment or verdict (404). */
export class Unknown extends AgentError {}

/** The decision has another reward or request, or no arm is left to play (409). */
export class Conflict extends AgentError {}

/** No agent answered in time, or its store fails; `status` is 0 if there was no answer at all. */
export class Unavailable extends AgentError {}

/** Make the error of an agent's refusal. */
export function makeError(status: number, sentence: string): AgentError {
  if (status === 404) return new Unknown(sentence, status);
  if (status === 409) return new Conflict(sentence, status);
  return new AgentError(sentence, status);
}
