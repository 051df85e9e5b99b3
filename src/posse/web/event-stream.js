// Server-sent events read by fetch, because EventSource cannot send a token; and plain requests.

export const wait = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// A request; a response that is not OK becomes an error with its status and sentence.
export const request = async (path, options = {}) => {
  const response = await fetch(path, { cache: "no-store", credentials: "omit", ...options });
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw Object.assign(new Error(body.error ?? `the server answered ${response.status}`), { status: response.status });
};

// Reads one stream until it ends, or is silent for too long. take(events): the parsed events of a chunk, perhaps none.
export const readStream = async (open, take, silence, signal) => {
  const dead = new AbortController();
  const stop = () => dead.abort();
  signal?.addEventListener("abort", stop, { once: true });
  let watchdog = setTimeout(stop, silence);
  try {
    const response = await open(dead.signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, silence);
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      take(parts.filter((part) => part.startsWith("data: ")).map((part) => JSON.parse(part.slice(6))));
    }
  } finally {
    clearTimeout(watchdog);
    signal?.removeEventListener("abort", stop);
    dead.abort(); // or it stays open, and a browser has six connections for one server
  }
};
