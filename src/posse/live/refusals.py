"""Refusal reasons: what an agent counts when it drops a message, an entry, a control or a status.

Every reason is a label of the metric `posse_refusals_total`, short, snake_case and stable; the text
beside it says what happened and what to do. The label stands a second time where the message is
refused; a test compares both. Reasons never contain text chosen by a neighbour.
"""

from __future__ import annotations

REFUSALS = {
    "fingerprint_mismatch": (
        "A neighbour has another family, prior, `reward_range`, `half_life`, context schema, "
        "`holdout` (or, with it, another `control_arm`), or other names or ranges of metrics. Or "
        "one of the two has no `stop`, or both have one and different `reward_window`s. Give all "
        "agents of the experiment the same settings."
    ),
    "signature_invalid": (
        "The origin of an entry has no certificate of an authority trusted here, or the "
        "entry is forged. Give both agents the same authority; else find out who forges."
    ),
    "rate_cap_exceeded": (
        "An origin reports more decisions than `rate_cap` allows. Raise the cap if it is "
        "too low. Set this machine's clock if it is behind. Otherwise the neighbour lies."
    ),
    "evidence_exceeds_pulls": (
        "The sums of an entry are larger than its decisions can give. The neighbour lies "
        "or has a fault: report it."
    ),
    "evidence_exceeds_network": (
        "Flows only: a flow or a level is larger than all decisions of the network can "
        "give. The neighbour lies or has a fault: report it."
    ),
    "impossible_version": (
        "Flows only: a neighbour claims a version of an edge that was never made. The "
        "neighbour was restored from a memory snapshot, or it lies. An honest neighbour "
        "recovers by itself."
    ),
    "own_identity": (
        "Flows only: a neighbour uses the identity of this agent. Two agents run on "
        "copies of one store: give one of them a new store."
    ),
    "identity_name_mismatch": (
        "Flows only: an identity first seen under one name now comes under another. A "
        "store was moved to another agent: give that agent a new store."
    ),
    "too_many_identities": (
        "Flows only: one neighbour came with more than 100 identities. Its store is lost "
        "at every start: give it a durable disk."
    ),
    "too_many_entries": (
        "More entries than an agent stores: too many agents, or agents whose store is "
        "lost at every start. Give them durable disks; else a neighbour lies."
    ),
    "too_many_entries_of_origin": (
        "One origin has more evidence than an agent stores (2 MB). It had too many arms "
        "over time, or its store is lost or restored at every start: give it a "
        "durable disk, or begin a new experiment."
    ),
    "entry_too_large": (
        "An entry is larger than any message. The neighbour lies or has a fault: report it."
    ),
    "malformed": (
        "A message or an entry is not well formed. The neighbour lies or has a fault: report it."
    ),
    "message_too_large": (
        "A message has more than 1,000,000 bytes. The neighbour lies or has a fault: report it."
    ),
    "message_too_short": (
        "A message has fewer than two bytes. The neighbour lies or runs another program "
        "at this address."
    ),
    "wire_version_mismatch": (
        "A neighbour runs a release with another message format. Run the same Posse at "
        "both ends; nothing is lost meanwhile."
    ),
    "unknown_message_type": (
        "A neighbour runs a release with message types that this release does not know. Run "
        "the same Posse everywhere."
    ),
    "exchange_mismatch": (
        "A neighbour runs the other `exchange`. Give all agents of the experiment the same one."
    ),
    "epoch_ahead_of_clock": (
        "With `half_life`: a neighbour's clock is more than one half-life ahead of this "
        "one. Set the clocks (NTP)."
    ),
    "clock_jumped_ahead": (
        "With `half_life`: this machine's clock was set ahead by more than one half-life, "
        "and the agent does not follow it. Set the clock back, or restart the agent if the "
        "new time is right."
    ),
    "evidence_full": (
        "The sum of an arm's rewards, or the number of arms, reached the most that a message can "
        "carry; further rewards are answered and no longer counted. Start a new experiment."
    ),
    "superseded": (
        "Evidence of an own decision was dropped, because neighbours hold more of the process "
        "that made it: the store of this agent was restored from a copy. No action: nothing "
        "counts twice."
    ),
    "unknown_experiment": (
        "A neighbour runs an experiment that this agent does not. No action, unless this "
        "agent should run it."
    ),
    "certificate_missing": (
        "A message came without a certificate of its sender, or no authority trusted here "
        "signed that certificate. Issue one: `posse certs issue NAME`."
    ),
    "certificate_too_large": (
        "A certificate has more than 4,096 bytes. Issue it with fewer hosts."
    ),
    "certificate_expired": (
        "The certificate of a neighbour has expired. Renew it: `posse certs issue NAME --force`."
    ),
    "wrong_key": (
        "A message came under the key of another agent. The neighbour lies or runs another program."
    ),
    "message_rate_exceeded": (
        "A neighbour sends more messages a second than `limits` allow: it floods, or "
        "ticks much faster than this agent. Raise `limits.messages_per_second` if it is "
        "honest."
    ),
    "byte_rate_exceeded": (
        "A neighbour sends more bytes a second than `limits` allow. Raise "
        "`limits.bytes_per_second` if it is honest."
    ),
    "malformed_control": (
        "A pin or a pause is not well formed. The neighbour lies or has a fault: report it."
    ),
    "control_signature_invalid": (
        "The signer of a pin or a pause has no certificate of an authority trusted here, or "
        "somebody forged the pin or the pause. Give both agents the same authority; else "
        "find out who forges."
    ),
    "control_wrong_network": (
        "A pin or a pause was signed for another `network`. The neighbour lies or has a "
        "fault: report it."
    ),
    "control_wrong_experiment": (
        "A pin or a pause was signed for another experiment. The neighbour lies or has a "
        "fault: report it."
    ),
    "control_not_from_operator": (
        "The signer of a pin or a pause is not in `operators` here. Add its name to "
        "`operators` if it may set controls."
    ),
    "control_version_too_high": (
        "The version of a control is more than 1,000 ahead of those known here. The control "
        "is accepted when the versions between have arrived. If they do not arrive, an "
        "operator's agent has a fault."
    ),
    "control_certificate_invalid": (
        "The certificate that signed a pin or a pause is not valid at this time. Renew it "
        "and repeat the command, or set this machine's clock."
    ),
    "malformed_status": (
        "A heartbeat is not well formed. The neighbour lies or has a fault: report it."
    ),
    "status_signature_invalid": (
        "The signer of a heartbeat has no certificate of an authority trusted here, or "
        "somebody forged the heartbeat. Do the same as for `signature_invalid`."
    ),
    "status_wrong_network": (
        "A heartbeat was signed for another `network`. Give all agents the same `network`."
    ),
    "status_from_future": (
        "A heartbeat is more than five minutes ahead of this machine's clock. Set that "
        "agent's clock, or this one (NTP)."
    ),
    "status_too_old": (
        "A heartbeat is more than a week old by this machine's clock. Set that agent's "
        "clock, or this one (NTP)."
    ),
    "too_many_statuses": (
        "More than 10,000 agents sent heartbeats. The network is too large, or a "
        "neighbour invents agents."
    ),
}
