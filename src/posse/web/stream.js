// Changes of the agent: a stream, or polling where the agent has too many viewers.
import { readStream, request, wait } from "./event-stream.js";

const TOKEN = "token";
const SILENCE = 5000; // ms without an event after which a stream is taken for dead
const POLL = 2000; // ms between two requests where there is no stream
const RETRY = 30000; // ms after which a stream is tried again
const LONGEST = 8000; // ms between two attempts

export const token = () => sessionStorage.getItem(TOKEN);
export const storeToken = (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN));

// A request with the token.
export const ask = (path, options = {}) => {
  const headers = { ...(options.body ? { "content-type": "application/json" } : {}), ...(token() ? { authorization: `Bearer ${token()}` } : {}) };
  return request(path, { ...options, headers });
};

const poll = async (base, take, signal) => {
  const until = Date.now() + RETRY;
  while (Date.now() < until && !signal.aborted) {
    take(await (await ask(`${base}page`, { signal })).json(), false);
    await wait(POLL, signal);
  }
};

// Follows an agent until stopped. take(change, streamed): a change; trouble(error): why there is none.
export const follow = (base, take, trouble) => {
  const control = new AbortController();
  const { signal } = control;
  (async () => {
    let pause = 500;
    const receive = (change, streamed) => {
      pause = 500;
      if (!signal.aborted) take(change, streamed);
    };
    while (!signal.aborted) {
      try {
        await readStream((dead) => ask(`${base}page/stream`, { signal: dead }), (changes) => changes.forEach((change) => receive(change, true)), SILENCE, signal);
      } catch (error) {
        if (signal.aborted) return;
        try {
          if (error.status !== 503) throw error;
          await poll(base, receive, signal);
        } catch (worse) {
          if (signal.aborted) return;
          trouble(worse);
          if (worse.status === 401 || worse.status === 404) return; // another request would not help
        }
      }
      await wait(pause, signal);
      pause = Math.min(LONGEST, pause * 1.6);
    }
  })();
  return () => control.abort();
};
