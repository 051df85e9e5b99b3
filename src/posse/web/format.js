// Numbers and times as people read them.
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

export const minus = (text) => text.replace("-", "−");
export const whole = (value) => minus(WHOLE.format(value));
export const fixed = (value, digits = 1) => minus(value.toFixed(digits));
export const percent = (value, digits = 2) => `${fixed(100 * value, digits)}%`;
export const count = (value) => (Math.abs(value - Math.round(value)) < 1e-6 || value >= 1000 ? whole(value) : fixed(value, 1));
export const brief = (value) => (value < 1000 ? count(value) : value < 9950 ? `${fixed(value / 1000)}k` : value < 999500 ? `${whole(value / 1000)}k` : `${fixed(value / 1e6)}M`);
export const sure = (p) => (p > 0.999 ? "> 99.9%" : p < 0.001 ? "< 0.1%" : percent(p, 1));
export const plural = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
export const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
export const total = (values) => values.reduce((a, b) => a + b, 0);

// A number of any size in about three digits.
export const short = (value) => {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return minus(value.toExponential(2)).replace("e+", "e").replace(/\.?0+e/, "e");
  if (size >= 100) return whole(value);
  return minus(String(Number(value.toPrecision(3))));
};
export const duration = (seconds) => {
  if (seconds < 0.0005) return "< 1 ms";
  if (seconds < 1) return `${whole(seconds * 1000)} ms`;
  if (seconds < 10) return `${fixed(seconds)} s`;
  if (seconds < 90) return `${whole(seconds)} s`;
  if (seconds < 5400) return `${whole(seconds / 60)} min`;
  if (seconds < 129600) return `${whole(seconds / 3600)} h`;
  return `${whole(seconds / 86400)} days`;
};
export const ago = (seconds) => `${seconds < 1 ? `${fixed(Math.max(0, seconds))} s` : duration(seconds)} ago`;

// Times are UTC: sites are in many places.
export const day = (time) => {
  const at = new Date(time * 1000);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
};
export const clock = (time) => {
  const at = new Date(time * 1000);
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
};
export const seconds = (time) => `${clock(time)}:${two(new Date(time * 1000).getUTCSeconds())}`;
export const stamp = (time) => `${day(time)} ${clock(time)}`;
export const elapsed = (time) => `${Math.floor(time / 60)}:${two(Math.floor(time) % 60)}`;
