// The views of a swarm: server-sent events read by fetch, or asking once a second; the newest are kept.
const MOST = 1800; // views
const QUIET = 6000; // ms without a word after which a stream is taken for dead
const ASK = 1000; // ms between two questions where there is no stream
const AGAIN = 30; // questions after which a stream is tried again
const LONGEST = 5000; // ms between two attempts

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const ask = async (path, options) => {
  const answer = await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(said.error ?? `the swarm answered ${answer.status}`), { status: answer.status });
};

export const post = async (path, body) => (await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();

// views: whole ones, in order, each with its number. take(): there are new ones; trouble(error): there is no answer.
export const follow = (views, take, trouble) => {
  const after = () => views.at(-1)?.number ?? 0;
  const ended = () => views.at(-1)?.phase === "ended";
  const add = ({ number, whole, view }) => {
    if (whole) views.length = 0;
    views.push({ ...views.at(-1), ...view, number });
    if (views.length > MOST) views.shift();
  };

  // One stream, until it ends or says nothing for too long.
  const read = async () => {
    const dead = new AbortController();
    const stop = () => dead.abort();
    let watchdog = setTimeout(stop, QUIET);
    try {
      const answer = await ask(`v1/views?after=${after()}`, { headers: { accept: "text/event-stream" }, signal: dead.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(stop, QUIET);
        text += value;
        const parts = text.split("\n\n");
        text = parts.pop();
        const news = parts.filter((part) => part.startsWith("data: "));
        for (const part of news) add(JSON.parse(part.slice(6)));
        take(true);
      }
    } finally {
      clearTimeout(watchdog);
    }
  };
  const poll = async () => {
    for (let i = 0; i < AGAIN && !ended(); i += 1) {
      for (const change of await (await ask(`v1/views?after=${after()}`)).json()) add(change);
      take(false);
      await wait(ASK);
    }
  };

  (async () => {
    let pause = 500;
    while (!ended()) {
      const before = after();
      try {
        await read().catch((error) => (error.status === 503 ? poll() : Promise.reject(error)));
        if (!ended()) throw new Error("the stream broke off");
      } catch (error) {
        trouble(error);
      }
      pause = after() === before ? Math.min(LONGEST, pause * 1.6) : 500;
      if (!ended()) await wait(pause);
    }
  })();
};
