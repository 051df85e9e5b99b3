// News of the agent: server-sent events read by fetch (EventSource cannot send a token), or asking.
const TOKEN = "token";
const QUIET = 5000; // ms without a word after which a stream is taken for dead
const ASK = 2000; // ms between two questions where there is no stream
const AGAIN = 30000; // ms after which a stream is tried again
const LONGEST = 8000; // ms between two attempts

export const token = () => sessionStorage.getItem(TOKEN);
export const keepToken = (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN));

// A request with the token; an answer that is no good is an error with its status and sentence.
export const ask = async (path, options = {}) => {
  const headers = { ...(options.body ? { "content-type": "application/json" } : {}), ...(token() ? { authorization: `Bearer ${token()}` } : {}) };
  const answer = await fetch(path, { cache: "no-store", credentials: "omit", ...options, headers });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(said.error ?? `the agent answered ${answer.status}`), { status: answer.status });
};

const wait = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// One stream: calls `take` with every change until it ends or says nothing for too long.
const read = async (base, take, signal) => {
  const dead = new AbortController();
  const stop = () => dead.abort();
  signal.addEventListener("abort", stop, { once: true });
  let watchdog = setTimeout(stop, QUIET);
  try {
    const answer = await ask(`${base}page/stream`, { signal: dead.signal });
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
      for (const part of parts) if (part.startsWith("data: ")) take(JSON.parse(part.slice(6)), true);
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    dead.abort(); // or it stays open, and a browser has six connections for one agent
  }
};

const poll = async (base, take, signal) => {
  const until = Date.now() + AGAIN;
  while (Date.now() < until && !signal.aborted) {
    take(await (await ask(`${base}page`, { signal })).json(), false);
    await wait(ASK, signal);
  }
};

// Follows an agent until told to stop. take(change, streamed): what is new; trouble(error): why there is nothing.
export const follow = (base, take, trouble) => {
  const control = new AbortController();
  const { signal } = control;
  (async () => {
    let pause = 500;
    const heard = (...news) => {
      pause = 500;
      if (!signal.aborted) take(...news);
    };
    while (!signal.aborted) {
      try {
        await read(base, heard, signal);
      } catch (error) {
        if (signal.aborted) return;
        try {
          if (error.status !== 503) throw error;
          await poll(base, heard, signal);
        } catch (worse) {
          if (signal.aborted) return;
          trouble(worse);
          if (worse.status === 401 || worse.status === 404) return; // asking again would not help
        }
      }
      await wait(pause, signal);
      pause = Math.min(LONGEST, pause * 1.6);
    }
  })();
  return () => control.abort();
};
