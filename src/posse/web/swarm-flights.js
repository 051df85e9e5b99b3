// Moving messages: a dot from one agent to another, a cross where one is lost.
import { s } from "./dom.js";

const LASTS = 0.9; // seconds of the swarm's time
const SPREAD = 0.5; // seconds over which the messages of one view set off

// layer: where they are drawn; place(i): where an agent is.
export const flights = (layer, place, radius) => {
  let [clock, flying] = [0, []];
  const draw = (flight, part) => {
    const [[x1, y1], [x2, y2]] = [place(flight.from), place(flight.to)];
    const far = Math.hypot(x2 - x1, y2 - y1) || 1;
    const edge = (radius() + 2) / far;
    const along = edge + (1 - 2 * edge) * (flight.passed ? part : Math.min(part, 0.5));
    const shape = flight.passed || part < 0.5 ? "msg" : "miss";
    if (flight.shape !== shape) {
      const made = shape === "msg" ? s("circle", { class: "msg", r: 3 }) : s("path", { class: "miss", d: "M-4 -4L4 4M4 -4L-4 4" });
      flight.drawn ? flight.drawn.replaceWith(made) : layer.append(made);
      [flight.shape, flight.drawn] = [shape, made];
    }
    flight.drawn.setAttribute("transform", `translate(${(x1 + (x2 - x1) * along).toFixed(1)} ${(y1 + (y2 - y1) * along).toFixed(1)})`);
  };
  const land = (flight) => flight.drawn?.remove();
  const made = (view) => view.messages.map(([from, to, passed], i, all) => ({ from, to, passed, at: clock + (SPREAD * i) / all.length }));

  return {
    // Starts the messages of a new view, one after the other.
    add: (view) => flying.push(...made(view)),
    // Advances the messages by seconds of the swarm's time.
    pass: (seconds) => {
      clock += seconds;
      flying = flying.filter((flight) => {
        const part = (clock - flight.at) / LASTS;
        if (part >= 1) land(flight);
        else if (part >= 0) draw(flight, part);
        return part < 1;
      });
    },
    // Draws the messages of a still moment.
    still: (view) => {
      flying.forEach(land);
      flying = made(view);
      flying.forEach((flight, i) => draw(flight, flight.passed ? 0.25 + (0.5 * ((i * 7) % 10)) / 10 : 0.6));
    },
  };
};
