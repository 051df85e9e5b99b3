// The views of a swarm: a stream, or polling once a second; the newest views are stored.
import { readStream, request, wait } from "./event-stream.js";

const MOST = 1800; // views
const SILENCE = 6000; // ms without an event after which a stream is taken for dead
const POLL = 1000; // ms between two requests where there is no stream
const RETRY = 30; // requests after which a stream is tried again
const LONGEST = 5000; // ms between two attempts

export const post = async (path, body) => (await request(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();

// views: complete ones, in order, each with its number. take(streamed): there are new ones; trouble(error): no answer.
export const follow = (views, take, trouble) => {
  const after = () => views.at(-1)?.number ?? 0;
  const ended = () => views.at(-1)?.phase === "ended";
  const add = ({ number, whole, view }) => {
    if (whole) views.length = 0;
    views.push({ ...views.at(-1), ...view, number });
    if (views.length > MOST) views.shift();
  };

  const stream = () => readStream(
    (signal) => request(`v1/views?after=${after()}`, { headers: { accept: "text/event-stream" }, signal }),
    (changes) => {
      changes.forEach(add);
      take(true);
    },
    SILENCE,
  );
  const poll = async () => {
    for (let i = 0; i < RETRY && !ended(); i += 1) {
      for (const change of await (await request(`v1/views?after=${after()}`)).json()) add(change);
      take(false);
      await wait(POLL);
    }
  };

  (async () => {
    let pause = 500;
    while (!ended()) {
      const before = after();
      try {
        await stream().catch((error) => (error.status === 503 ? poll() : Promise.reject(error)));
        if (!ended()) throw new Error("the stream broke off");
      } catch (error) {
        trouble(error);
      }
      pause = after() === before ? Math.min(LONGEST, pause * 1.6) : 500;
      if (!ended()) await wait(pause);
    }
  })();
};
