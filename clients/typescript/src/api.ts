// The types of requests and answers. Written by generate_types.py from /openapi.json: do not edit.

/**
 * An agent of the network, as it is known here.
 *
 * state: here, this agent itself; up, connected or received from within 120 seconds; down, a
 * neighbour that is not connected, and of which nothing was received by any path since it was
 * lost; silent, nothing for 120 seconds; known, only its evidence is. heard: the time of its last
 * status, by this agent's clock; via: the neighbour that forwarded it. lag: seconds that a message
 * of a neighbour takes, of others those that their status took. The rest is its own report.
 */
export interface AgentAnswer {
  experiments: Record<string, CountAnswer>;
  heard: number | null;
  lag: number | null;
  neighbours: Record<string, LinkEndAnswer>;
  refused: Record<string, number>;
  started: number | null;
  state: "down" | "here" | "known" | "silent" | "up";
  version: string | null;
  via: string | null;
}

/** The series of one arm, at this agent and in the network. */
export interface ArmHistory {
  here: Series;
  network: Series;
}

/** The name of an arm; by and reason: who gives the command, and why, for the log of events. */
export interface ArmRequest {
  arm: string;
  /** who gives the command */
  by?: string;
  /** why */
  reason?: string;
}

/** Summary of an arm from closed decisions, with honest intervals, and its open decisions. */
export interface ArmStatus {
  mean: number;
  low: number;
  high: number;
  probability_best: number;
  expected_loss: number;
  pulls_here: number;
  pulls_in_network: number;
  open_here?: number;
  open_in_network?: number;
  network_mean?: number | null;
  network_low?: number | null;
  network_high?: number | null;
  sd_between_sites?: number | null;
  sites_differ?: boolean;
}

/** The context of the visitors in question; missing fields are as on average. */
export interface ArmsRequest {
  /** the visitor's features, by name */
  context: Record<string, unknown>;
}

/**
 * Audit: decisions counted by this agent, beside those (open ones included) in the evidence.
 *
 * counted: a durable counter beside the evidence. in_evidence: decisions in this agent's own
 * entries, the same number unless evidence was lost or the store was restored from a copy.
 * in_network: decisions of all agents as known here; under flows an estimate of their sum.
 */
export interface Audit {
  counted: number;
  in_evidence: number;
  in_network: number;
}

/** What the caller may do: read, give commands; whether its token is known; its experiments. */
export interface CallerAnswer {
  admitted: boolean;
  operator: boolean;
  known_token: boolean;
  experiments: string[];
}

/**
 * The context of visitors: its fields in agent.toml, and the features of the average visitor.
 *
 * unknown: how many decisions since the start had a category without a column, by field; clipped:
 * a number outside its range.
 */
export interface ContextAnswer {
  fields: Record<string, unknown>;
  average: Record<string, number>;
  unknown: Record<string, number>;
  clipped: Record<string, number>;
}

/**
 * A control record: the arms that an operator pinned or paused, and agents it forgot.
 *
 * by, reason: who gave the last command, and why; empty if that was not stated.
 */
export interface ControlAnswer {
  by: string;
  forgotten: string[];
  paused: string[];
  pinned: string | null;
  reason: string;
  signer: string;
  version: number;
}

/**
 * Pinned and paused arms, and the records that they come from.
 *
 * unknown: arms that are named by a record but do not exist here. operator: whether commands given
 * here apply to the whole network.
 */
export interface ControlsAnswer {
  here: ControlAnswer | null;
  network: ControlAnswer | null;
  operator: boolean;
  paused: string[];
  pinned: string | null;
  unknown: string[];
}

/**
 * The decisions that an agent counted in an experiment, by its own report, and those here.
 *
 * counted: decisions in its own evidence, open ones included. late: rewards refused as late since
 * its start. held: decisions of it that are known here. behind: counted, and not known here yet.
 * null: unknown, as under flows, of an experiment that is not run here, or of an agent without a
 * status; behind also where evidence fades.
 */
export interface CountAnswer {
  behind: number | null;
  counted: number | null;
  held: number | null;
  late: number | null;
  open: number | null;
}

/** An arm to play. */
export interface DecisionAnswer {
  /** the decision's id */
  decision: string;
  arm: string;
  /** with which the arm was chosen */
  probability: number;
}

/**
 * A request for a decision; with an own id, repeated requests get the same answer.
 *
 * decision: its id, else one is drawn; allowed: the arms to choose from, else all; visitor: whom
 * it is for, so that the same visitor gets the same arm at every agent; activate: false if it is
 * not certain yet that the arm is shown.
 */
export interface DecisionRequest {
  decision?: string | null;
  allowed?: string[] | null;
  context?: Record<string, unknown> | null;
  visitor?: string | null;
  /** false: no evidence until the decision is activated or has a reward */
  activate?: boolean;
}

/**
 * A decision: its arm and propensity, state, times in Unix seconds, visitor and reward.
 *
 * state: "inactive" until it is activated or has a reward, "open" until its reward is final,
 * then "closed"; "cancelled"; "superseded" if another copy of this agent's store has it. reward:
 * also the default reward after the reward window; null if there is none. rewarded: when the
 * reward arrived; null if none did. closed: when it became final; null while it can change.
 * holdout: whether it is for a visitor of the holdout; null if it is on neither side.
 */
export interface DecisionStatusAnswer {
  /** the decision's id */
  decision: string;
  arm: string;
  /** with which the arm was chosen */
  probability: number;
  /** where the decision is in its life */
  state: "cancelled" | "closed" | "inactive" | "open" | "superseded";
  time: number;
  reward: number | null;
  rewarded: number | null;
  closed: number | null;
  context: Record<string, unknown> | null;
  visitor: string | null;
  holdout: boolean | null;
  metrics: Record<string, number> | null;
}

/** An answer or an error for each, in the same order. */
export interface DecisionsAnswer {
  decisions: (DecisionAnswer | ItemError)[];
}

/** Many requests for a decision. */
export interface DecisionsRequest {
  decisions: DecisionRequest[];
}

/** An empty object. */
export type EmptyRequest = Record<string, never>;

/**
 * How many decisions were deleted from the store.
 *
 * log_emptied: whether no byte of them is left in the store and its log; false if another program
 * was reading the store (such as an export): the agent removes the rest when that has ended.
 */
export interface ErasureAnswer {
  erased: number;
  log_emptied: boolean;
}

/** The visitor whose decisions are to be deleted, or one decision; by and reason: for events. */
export interface ErasureRequest {
  visitor?: string | null;
  decision?: string | null;
  /** who gives the command */
  by?: string;
  /** why */
  reason?: string;
}

/** What is wrong, in one sentence. */
export interface Error {
  error: string;
}

/** The context of a visitor, of whom `targetingKey` is the id. */
export interface EvaluationRequest {
  /** targetingKey is the visitor's id; fields of the experiment's context are used, others are ignored */
  context: Record<string, unknown>;
}

/** Something that happened, in one sentence. */
export interface Event {
  time: number;
  kind: string;
  text: string;
}

/** The newest events of an experiment, oldest first; times are in Unix seconds. */
export interface EventsAnswer {
  events: Event[];
}

/**
 * One experiment: its arms, its counts since the start, and its controls.
 *
 * silence: when a decision counts: with its reward ("reported"), from the start and corrected
 * ("count"), or at the end of its reward window ("wait"). late_rewards were refused since the
 * start as their windows had closed, the latest by `longest_lateness` seconds;
 * superseded_rewards as the store was restored from a copy. half_life: seconds after which
 * evidence is worth half; null: it does not fade. context: the context of visitors; null: none.
 */
export interface ExperimentAnswer {
  arms: string[];
  decisions: number;
  rewards: number;
  open_decisions: number;
  inactive_decisions: number;
  silence: string;
  reward_window: number | null;
  late_rewards: number;
  longest_lateness: number;
  superseded_rewards: number;
  half_life: number | null;
  pinned: string | null;
  paused: string[];
  sites: SitesAnswer;
  context?: ContextAnswer | null;
}

/** The experiments of this agent by name. */
export interface ExperimentsAnswer {
  experiments: Record<string, ExperimentAnswer>;
}

/** The value of a flag for a visitor: the payload of an arm, or its name. */
export interface FlagAnswer {
  /** the experiment's name */
  key: string;
  value: unknown;
  variant: string;
  metadata: FlagMetadata;
  reason?: string;
}

/** Why a flag has no value, as an OpenFeature error code and in one sentence. */
export interface FlagError {
  errorCode: string;
  errorDetails: string;
  key?: string;
}

/** The decision behind the value of a flag, to which a reward can be sent. */
export interface FlagMetadata {
  /** the decision's id */
  decision: string;
  /** with which the arm was chosen */
  probability: number;
}

/** The value of each flag for a visitor, or why it has none. */
export interface FlagsAnswer {
  flags: (FlagAnswer | FlagError)[];
}

/** The name of an agent that left. */
export interface ForgetRequest {
  /** an agent's name */
  agent: string;
  /** who gives the command */
  by?: string;
  /** why */
  reason?: string;
}

/** Every metric of every arm. */
export interface GuardrailsAnswer {
  metrics: MetricStatus[];
}

/** The history at rising times; fading: numbers are the weights of evidence at that time. */
export interface History {
  scale: string;
  seconds: number;
  times: number[];
  arms: Record<string, ArmHistory>;
  expected_loss: (number | null)[];
  fading: boolean;
  events: Event[];
}

/** What is wrong with one item, and the status that it would have got alone. */
export interface ItemError {
  error: string;
  status: number;
}

/** Whether an experiment may stop: a `posse.Verdict` with the name of its arm. */
export interface Judgement {
  verdict: "good-enough" | "keep-going" | "no-difference" | "winner";
  arm: string | null;
  evidence: number | null;
  needed: number | null;
  expected_loss: number | null;
  sentence: string;
  since?: number | null;
  probability_best?: number | null;
  more_decisions?: Range | null;
  seconds_left?: Range | null;
}

/** A link between two agents, listed once; half: its ends disagree whether it is up. */
export interface LinkAnswer {
  a: string;
  b: string;
  lag: number | null;
  state: "down" | "half" | "up";
}

/** A link as reported by one end of it. */
export interface LinkEndAnswer {
  lag: number | null;
  up: boolean;
}

/**
 * A metric of an arm: its mean with an interval that is valid at every look, and its limit.
 *
 * limit: the number that the mean should not cross, which for a relative limit follows the control
 * arm's interval; null if there is none. breached: whether the whole interval is beyond the limit.
 */
export interface MetricStatus {
  metric: string;
  arm: string;
  decisions: number;
  mean: number | null;
  low: number | null;
  high: number | null;
  limit: number | null;
  breached: boolean;
  sentence: string;
}

/** Metrics that are on disk. */
export interface MetricsAnswer {
  /** the decision's id */
  decision: string;
  metrics: Record<string, number>;
  /** whether all were there before */
  repeated: boolean;
}

/** Metrics of a decision, without its reward. */
export interface MetricsRequest {
  /** values by the metric's name */
  metrics: Record<string, number>;
}

/**
 * One neighbour, over all experiments.
 *
 * lag: entries or versions that it is not known to have.
 */
export interface NeighbourAnswer {
  active: boolean;
  connected: boolean;
  identity: string | null;
  lag: number | null;
  last_heard: number | null;
}

/** The neighbours, all known agents and links, and refusals by reason. */
export interface NetworkAnswer {
  agents: Record<string, AgentAnswer>;
  agents_known: number;
  links: LinkAnswer[];
  neighbours: Record<string, NeighbourAnswer>;
  refused: Record<string, number>;
}

/**
 * The content of the page: the time of the agent, and its sections by name.
 *
 * Each is as the route of its name answers (arms, controls, verdict, uplift, guardrails, audit,
 * sites, network), or of the page's own: agent, experiment, lift (of the leader over the next
 * arm), start, past.
 */
export interface PageAnswer {
  now: number;
  sections: Record<string, unknown>;
}

/** A forecast: the likely number, and bounds that are one standard error away. */
export interface Range {
  least: number;
  likely: number;
  most: number | null;
}

/** What changed, in one sentence. */
export interface ReloadAnswer {
  changed: string;
}

/** A paused or pinned arm, or none: then all arms are played again. */
export interface ResumeRequest {
  arm?: string | null;
  /** who gives the command */
  by?: string;
  /** why */
  reason?: string;
}

/** A reward that is on disk. */
export interface RewardAnswer {
  /** the decision's id */
  decision: string;
  reward: number;
  /** whether it was there before */
  repeated: boolean;
}

/** The reward of one decision of many, and perhaps metrics of it. */
export interface RewardItem {
  /** the decision's id */
  decision: string;
  reward: number;
  metrics?: Record<string, number> | null;
}

/** The reward of a decision, and perhaps metrics of it. */
export interface RewardRequest {
  reward: number;
  metrics?: Record<string, number> | null;
}

/** An answer or an error for each, in the same order. */
export interface RewardsAnswer {
  rewards: (RewardAnswer | ItemError)[];
}

/** Many rewards. */
export interface RewardsRequest {
  rewards: RewardItem[];
}

/** Cumulative numbers at the times of a history; None where the arm was not known. */
export interface Series {
  pulls: (number | null)[];
  closed: (number | null)[];
  rewards: (number | null)[];
}

/**
 * One site: its evidence for every arm, and what sharing gained it.
 *
 * gain: its evidence for the leading arm is worth this many times its own closed decisions.
 */
export interface Site {
  arms: Record<string, SiteArm>;
  gain: number | null;
}

/** Closed decisions of one site for one arm, and their mean reward (None: there are none). */
export interface SiteArm {
  pulls: number;
  mean: number | null;
}

/** Every site, this agent's own first; why: the reason if sites are not known. */
export interface SiteMap {
  sites: Record<string, Site>;
  apart?: SiteOutlier[];
  left_out?: number;
  why?: string | null;
}

/** A site that differs from the other sites in one arm beyond chance. */
export interface SiteOutlier {
  site: string;
  arm: string;
  higher: boolean;
  elsewhere: number;
}

/**
 * How the evidence of other sites is read, and what it gained.
 *
 * read: "alike", "differ" or a number, as in agent.toml. alike: the probability that the means of
 * all arms are the same at all sites (no heterogeneity); null where there is nothing to compare.
 * differ: a sentence where there is little doubt that they are not. loss_alone: the expected loss
 * of choosing the best arm now, by the closed decisions of this site alone; loss_shared: the same
 * by those of all sites, as they are read here.
 */
export interface SitesAnswer {
  read: string;
  alike: number | null;
  differ: string | null;
  loss_alone: number | null;
  loss_shared: number | null;
}

/** The state of the process or of the store. */
export interface StatusAnswer {
  status: string;
}

/** An answer or an error for each reward, and the decision (or the list) that was asked for. */
export interface StepsAnswer {
  rewards: (RewardAnswer | ItemError)[];
  decision?: DecisionAnswer | ItemError;
  decisions?: (DecisionAnswer | ItemError)[];
}

/** Rewards, and a request for the next decision or a list of them, in one commit. */
export interface StepsRequest {
  rewards?: RewardItem[];
  decide?: DecisionRequest[] | DecisionRequest | null;
}

/** The decision that got the reward. */
export interface TrackingAnswer {
  /** the experiment's name */
  key: string;
  /** the decision's id */
  decision: string;
  reward: number;
  /** whether it had this reward before */
  repeated: boolean;
}

/** Details of an event, of which the value is the reward. */
export interface TrackingDetails {
  value?: number;
}

/** An event of a visitor: the reward of the visitor's newest decision in the experiment. */
export interface TrackingRequest {
  /** the experiment's name */
  event: string;
  /** targetingKey is the visitor's id; fields of the experiment's context are used, others are ignored */
  context: Record<string, unknown>;
  details?: TrackingDetails;
}

/** A decision that was activated or cancelled, and its state now. */
export interface TransitionAnswer {
  /** the decision's id */
  decision: string;
  /** where the decision is in its life */
  state: "cancelled" | "closed" | "inactive" | "open" | "superseded";
  /** whether it was so before */
  repeated: boolean;
}

/**
 * What the bandit earned beyond the control arm, on average over closed decisions so far.
 *
 * low, high: a 95% interval that is valid however often one looks; null while there are too few
 * decisions on a side. sentence: all of it for people.
 */
export interface Uplift {
  control_arm: string;
  holdout: number;
  bandit: UpliftSide;
  control: UpliftSide;
  uplift: number | null;
  low: number | null;
  high: number | null;
  sentence: string;
}

/** The closed decisions of one side, and their mean reward; None if there are none. */
export interface UpliftSide {
  decisions: number;
  mean: number | null;
}
