"""Pins and pauses: what acts, who is believed, and that all agents come to agree."""

import dataclasses
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posse.live.controls.controls import (
    REPEAT_SECONDS,
    Control,
    ControlMessage,
    Controls,
    describe_changes,
)
from posse.live.controls.records import AHEAD, MOST_FORGOTTEN, MOST_STEPS
from posse.live.messaging.wire import Codec
from posse.live.security.certificates import CertificateFiles
from posse.live.security.signatures import make_signer, make_voucher
from posse.live.store import Conflict
from tests.live.loopback import certified, issue_for

ARMS = ["red", "green", "blue"]
NOW = 1000.0


def sign_as(name, until=2000.0):
    """A signature that says who made it, of what, and until when its certificate is valid."""
    return lambda content: json.dumps([name, until, content.decode()]).encode()


def vouch(name, content, signature):
    try:
        signed_by, until, signed = json.loads(signature)
    except ValueError:
        return None
    return (0.0, until) if (signed_by, signed) == (name, content.decode()) else None


def controls(agent, operators=("berlin", "rome"), experiment="default", sign=True):
    return Controls(
        "shop", experiment, agent, operators=operators,
        sign=sign_as(agent) if sign else None, vouch=vouch if sign else None,
    )  # fmt: skip


def signed(control, name=None, until=2000.0):
    sign = sign_as(name or control.signer, until)
    return dataclasses.replace(control, signature=sign(control.content))


def record(version, signer="berlin", pinned="green", **other):
    return signed(Control("shop", "default", version, signer, pinned, **other))


def acting(made, arms=ARMS):
    status = made.describe_status(arms)
    return status["pinned"], status["paused"]


def test_what_may_be_played():
    made = controls("berlin")
    assert made.filter_arms(ARMS, None) == ARMS
    assert not made.has_effect
    assert made.pin("green", ARMS).version == 1
    assert made.filter_arms(ARMS, None) == made.filter_arms(ARMS, ["green", "red"]) == ["green"]
    with pytest.raises(Conflict, match="'green' is pinned in the whole network by berlin"):
        made.filter_arms(ARMS, ["red"])
    assert made.filter_arms(ARMS, ["pink"]) == ["pink"]  # the agent knows what is wrong with it
    made.pause("green", ARMS)  # which ends the pin: the last word counts
    assert acting(made) == (None, ["green"])
    assert made.filter_arms(ARMS, ["blue", "green"]) == ["blue"]
    with pytest.raises(Conflict, match="no arm is left to play: 'green' is paused"):
        made.filter_arms(ARMS, ["green"])
    made.pause("red", ARMS)
    made.resume("green", ARMS)
    assert acting(made) == (None, ["red"])
    made.pin("red", ARMS)  # which ends the pause
    assert acting(made) == ("red", [])
    assert made.resume(None, ARMS).version == 6
    assert made.filter_arms(ARMS, None) == ARMS


def test_an_arm_unknown_here():
    made = controls("berlin")
    for command in (made.pin, made.pause, made.resume):
        with pytest.raises(Conflict, match="unknown arm 'pink': the arms here are 'red', 'green'"):
            command("pink", ARMS)
    assert made.version == 0
    # another agent may have it: the record is kept and passed on, and does nothing here
    far = record(1, pinned="pink", paused=("blue", "grey"))
    assert made.accept_control(far, NOW) is None
    assert made.filter_arms(ARMS, None) == ["red", "green"]
    assert made.describe_status(ARMS)["unknown"] == ["grey", "pink"]
    assert made.make_message() == ControlMessage((far,))
    assert made.filter_arms([*ARMS, "pink"], None) == ["pink"]
    made.resume("pink", ARMS)
    assert made.describe_status(ARMS)["unknown"] == ["grey"]


@pytest.mark.parametrize("options", [{"operators": ()}, {"sign": False}])
def test_without_operators_or_certificates_it_acts_here_only(options):
    made = controls("berlin", **options)
    assert not made.is_operator
    control = made.pin("green", ARMS)
    assert control.signature == b""
    assert made.filter_arms(ARMS, None) == ["green"]
    assert made.tick(["paris"], NOW) == []
    assert made.make_message() == ControlMessage(())
    assert made.describe_status(ARMS)["here"]["pinned"] == "green"
    assert made.accept_control(record(1), NOW) == "control_not_from_operator"


def test_what_is_set_here_acts_on_top_of_the_networks():
    made = controls("paris")
    made.pin("red", ARMS)
    made.accept_control(record(1, pinned="green", paused=("blue",)), NOW)
    assert acting(made) == ("red", ["blue"])  # a pin here goes first, pauses add up
    with pytest.raises(Conflict, match="'blue' is paused in the whole network by berlin"):
        made.pin("blue", ARMS)
    for arm in ("green", "blue"):
        with pytest.raises(Conflict, match="only an operator can"):
            made.resume(arm, ARMS)
    made.pause("green", ARMS)
    made.accept_control(record(2, pinned="green"), NOW)
    with pytest.raises(Conflict, match="'red' is pinned at this agent alone, 'green' is paused at"):
        made.filter_arms(ARMS, ["green"])
    made.resume(None, ARMS)
    assert acting(made) == ("green", [])  # the network's again
    # a paused arm is never played, whoever pinned it
    made.pin("red", ARMS)
    made.accept_control(record(3, pinned="", paused=("red",)), NOW)
    with pytest.raises(Conflict, match="no arm is left"):
        made.filter_arms(ARMS, None)


def test_an_operators_command_is_the_last_word_at_its_own_agent():
    made = controls("berlin", operators=())
    made.pin("red", ARMS)
    made.configure_operators(["berlin"], sign_as("berlin"), vouch)
    assert acting(made) == ("red", [])
    made.pin("green", ARMS)
    assert acting(made) == ("green", [])
    assert made.describe_status(ARMS)["here"] is None


def test_every_change_is_logged_with_its_experiment(caplog):
    made = controls("paris", experiment="banner")
    made.accept_control(signed(Control("shop", "banner", 1, "berlin", "green")), NOW)
    made.accept_control(signed(Control("shop", "banner", 1, "berlin", "green")), NOW)  # nothing new
    made.pause("blue", ARMS)
    made.configure_operators(["rome"], sign_as("paris"), vouch)
    assert [record.experiment for record in caplog.records] == ["banner"] * 3
    taken, here, lifted = caplog.messages
    assert taken == "'green' is pinned in the whole network by berlin (version 1 of berlin)"
    assert "'blue' is paused at this agent alone" in here
    assert lifted == "controls of berlin are removed: it is no longer an operator"


def test_a_repeated_request_makes_no_new_version():
    made = controls("berlin")
    assert made.pin("green", ARMS) is made.pin("green", ARMS)
    made.accept_control(record(2, "rome"), NOW)
    assert made.pin("green", ARMS).version == 3  # rome may leave; this is berlin's own word


def test_a_restart_forgets_nothing_of_the_network():
    """Also where the settings are told after the state, and no neighbour is there to ask."""
    made = controls("paris")
    made.accept_control(record(1), NOW)
    made.pause("blue", ARMS)
    again = Controls("shop", "default", "paris")
    again.restore(made.state())
    assert acting(again) == (None, ["blue"])  # nobody is named yet
    again.configure_operators(["berlin"], sign_as("paris"), vouch)
    assert acting(again) == ("green", ["blue"])
    assert again.state() == made.state()
    other = controls("paris", operators=["rome"])
    other.restore(made.state())
    assert acting(other) == (None, ["blue"])


LIARS = {
    "no operator": (record(5, "paris"), "operator"),
    "another's name": (signed(Control("shop", "default", 5, "rome", "red"), "paris"), "signature"),
    "changed": (dataclasses.replace(record(5), pinned="red"), "signature"),
    "unsigned": (dataclasses.replace(record(5), signature=b""), "signature"),
    "ended": (signed(record(5), until=NOW - 1), "certificate_invalid"),
    "other experiment": (signed(Control("shop", "ads", 5, "berlin", "red")), "experiment"),
    "other network": (signed(Control("mall", "default", 5, "berlin", "red")), "wrong_network"),
    "too far": (record(1 + AHEAD + 1), "version_too_high"),
    "much too far": (record(10**18), "version_too_high"),
    "beyond the wire": (record(2**63 - 1), "malformed"),
    "version 0": (record(0), "malformed"),
    "unsorted": (record(5, paused=("red", "blue")), "malformed"),
    "twice": (record(5, paused=("red", "red")), "malformed"),
    "both": (record(5, paused=("green",)), "malformed"),
    "long": (record(5, pinned="x" * 201), "malformed"),
    "many": (record(5, paused=tuple(sorted(map(str, range(1001))))), "malformed"),
    "no text": (signed(Control("shop", "default", 5, "berlin", 7)), "malformed"),
}


@pytest.mark.parametrize("liar", LIARS)
def test_liars_change_nothing(liar):
    control, reason = LIARS[liar]
    made = controls("rome")
    assert made.accept_control(record(1), NOW) is None
    before, message = acting(made), made.make_message().controls[-1]
    assert reason in made.accept_control(control, NOW)
    assert reason in made.receive("paris", ControlMessage((control, control)), NOW)[0]
    assert acting(made) == before == ("green", [])
    assert made.make_message().controls[-1] == message or liar == "ended"
    # and no operator is kept from a next version, which all take
    after = made.pause("blue", ARMS)
    other = controls("berlin")
    assert [other.accept_control(each, NOW) for each in made.make_message().controls][-1] is None
    assert other.describe_status(ARMS)["network"]["version"] == after.version


def test_work_for_one_forged_signature_a_message():
    asked = []

    def counting(*arguments):
        asked.append(arguments)
        return vouch(*arguments)

    made = Controls("shop", "default", "rome", operators=["berlin"], vouch=counting)
    forged = [dataclasses.replace(record(n), signature=b"x") for n in range(1, 90)]
    assert made.receive("paris", ControlMessage(tuple(forged)), NOW) == [
        "control_signature_invalid"
    ]
    assert len(asked) == 1
    made.receive("paris", ControlMessage((record(1),) * 50), NOW)
    assert len(asked) == 2  # known records cost nothing


commands = st.lists(
    st.tuples(
        st.sampled_from(["berlin", "rome", "paris"]),
        st.sampled_from(["pin", "pause", "resume", "hear", "restart"]),
        st.sampled_from(ARMS),
        st.sampled_from(["berlin", "rome", "paris"]),
    ),
    max_size=40,
)


@given(commands, st.randoms(use_true_random=False))
def test_all_agree_whatever_the_order_repetition_and_loss(steps, random):
    """Operators and others act, some records are lost, others come late or again."""
    agents = {name: controls(name) for name in ("berlin", "rome", "paris", "oslo")}
    made = []
    for name, command, arm, other in steps:
        agent = agents[name]
        if command == "hear":
            agent.receive(other, agents[other].make_message(), NOW)
        elif command == "restart":
            agents[name] = again = controls(name)
            again.restore(agent.state())
            assert again.state() == agent.state()
        else:
            try:
                control = getattr(agent, command)(arm, ARMS)
            except Conflict:
                continue
            made += [control] if agent.is_operator else []
    for agent in agents.values():
        for control in random.sample(made, len(made)) + made[: len(made) // 2]:
            assert agent.accept_control(control, NOW) is None
    best = max(made, key=lambda control: control.rank, default=None)
    assert {agent.network_record for agent in agents.values()} == {best}
    assert (
        len({json.dumps(agent.describe_status(ARMS)["network"]) for agent in agents.values()}) == 1
    )


def test_one_version_made_twice_after_a_disk_was_set_back():
    berlin, rome, paris = controls("berlin"), controls("rome"), controls("paris")
    old = berlin.state()
    first = berlin.pin("green", ARMS)
    berlin.restore(old)
    second = berlin.pin("red", ARMS)
    assert first.version == second.version
    for agent, order in ((rome, (first, second)), (paris, (second, first))):
        for control in order:
            assert agent.accept_control(control, NOW) is None
    assert acting(rome) == acting(paris)


def test_whoever_joins_late_reaches_a_high_version_by_steps():
    """Version 3500 alone would be too far ahead for an agent that knows none."""
    berlin = controls("berlin")
    for _ in range(1750):
        berlin.pin("red", ARMS)
        berlin.pause("red", ARMS)
    assert berlin.version == 3500
    assert 3 <= len(berlin.make_message().controls) <= 8
    late = controls("oslo")
    assert (
        late.accept_control(berlin.make_message().controls[-1], NOW) == "control_version_too_high"
    )
    assert late.receive("berlin", berlin.make_message(), NOW) == []
    assert acting(late) == acting(berlin) == (None, ["red"])
    # also where the certificates of the steps have ended meanwhile, and by way of a relay
    *steps, last = berlin.make_message().controls
    later = controls("oslo")
    old = tuple(signed(step, until=NOW - 1) for step in steps)
    assert set(later.receive("berlin", ControlMessage((*old, last)), NOW)) == {
        "control_certificate_invalid"
    }
    assert acting(later) == (None, ["red"])
    relayed = controls("paris")
    relayed.receive("oslo", later.make_message(), NOW)
    assert acting(relayed) == (None, ["red"])


@given(st.lists(st.integers(1, AHEAD), max_size=60))
def test_whatever_versions_there_were_a_newcomer_gets_to_the_last(jumps):
    made, late = controls("rome"), controls("oslo")
    version = 0
    for jump in jumps:
        version += jump
        assert made.accept_control(record(version), NOW) is None
    message = made.make_message()
    assert late.receive("rome", message, NOW) == []
    assert late.version == made.version == version
    # no more than needed: any two gaps in a row are longer than one may be
    versions = [0, *(each.version for each in message.controls)]
    assert all(b - a > AHEAD for a, b in zip(versions, versions[2:], strict=False))


def test_an_operator_gone_mad_is_forgotten_when_it_is_no_longer_named():
    """It can use up the steps, but not for ever."""
    made = controls("rome")
    made.pin("green", ARMS)
    for step in range(1, 2 * MOST_STEPS):
        made.accept_control(record(1 + step * AHEAD, "berlin", "red"), NOW)
    assert made.version <= (MOST_STEPS + 1) * AHEAD
    with pytest.raises(Conflict, match="start a new experiment"):
        [made.pause(arm, ARMS) for _ in range(AHEAD) for arm in ARMS]
    made.configure_operators(["rome"], sign_as("rome"), vouch)
    assert acting(made) == (None, [])
    assert made.pin("green", ARMS).version < 3000
    assert made.accept_control(record(1 + AHEAD, "berlin", "red"), NOW) is not None


def test_large_steps_are_sent_in_turn():
    arms = sorted(f"{n:0>199}" for n in range(800))
    made = controls("rome")
    for n in range(1, 8):
        assert made.accept_control(record(n * 900, paused=tuple(arms)), NOW) is None
    late = controls("oslo")
    sizes = []
    for _ in range(10):
        message = made.make_message()
        sizes.append(len(Codec(ControlMessage).encode(message)))
        late.receive("rome", message, NOW)
    assert max(sizes) < 700_000
    assert late.version == made.version == 6300


def test_a_renewed_certificate_signs_anew():
    berlin, rome = controls("berlin"), controls("rome")
    berlin.pin("green", ARMS)
    rome.receive("berlin", berlin.make_message(), NOW)
    later = 2500.0
    late = controls("oslo")
    assert "certificate_invalid" in late.receive("rome", rome.make_message(), later)[0]
    berlin.configure_operators(["berlin", "rome"], sign_as("berlin", until=9000.0), vouch)
    assert berlin.version == 1
    old = rome.make_message()
    assert rome.receive("berlin", berlin.make_message(), later) == []
    assert rome.make_message() == berlin.make_message() != old
    assert late.receive("rome", rome.make_message(), later) == []
    rome.receive("oslo", old, NOW)  # the old signature does not come back
    assert rome.make_message() == berlin.make_message()


def test_what_is_sent_when():
    berlin = controls("berlin")
    assert berlin.tick(["rome", "paris"], 0.0) == []
    berlin.pin("green", ARMS)
    message = berlin.make_message()
    assert berlin.tick(["rome", "paris"], 1.0) == [("rome", message), ("paris", message)]
    assert berlin.tick(["rome", "oslo"], 2.0) == [("oslo", message)]  # a new neighbour
    assert berlin.tick(["rome"], 1.0 + REPEAT_SECONDS) == [
        ("rome", message)
    ]  # it may have been lost
    assert berlin.tick(["rome"], 2.0 + REPEAT_SECONDS) == []
    assert berlin.tick(["rome"], 5.0) == [("rome", message)]  # a clock that was set back
    berlin.receive("rome", ControlMessage(()), 6.0)  # rome has lost its disk
    assert berlin.tick(["rome"], 6.0) == [("rome", message)]
    berlin.resume(None, ARMS)
    ((_, last),) = berlin.tick(["rome"], 7.0)
    assert last.controls[-1].version == 2


def test_the_wire_takes_it():
    message = ControlMessage((record(1, paused=("blue", "grün"[:2])), record(2)))
    codec = Codec(ControlMessage)
    decoded = codec.decode(codec.encode(message))
    assert getattr(decoded, "message", decoded) == message


def test_every_field_is_signed():
    one = Control("shop", "default", 1, "berlin", "green", ("blue",))
    others = [
        dataclasses.replace(one, **{field: value})
        for field, value in {
            "network": "x", "experiment": "x", "version": 2, "signer": "x", "pinned": "x",
            "paused": (), "forgotten": (("x", 1),), "by": "x", "reason": "x",
        }.items()
    ]  # fmt: skip
    assert len({each.content for each in (one, *others)}) == 10
    assert {field.name for field in dataclasses.fields(Control)} - {"signature"} == {
        "network", "experiment", "version", "signer", "pinned", "paused", "forgotten", "by",
        "reason",
    }  # fmt: skip


def test_real_certificates(tmp_path):
    folder = certified(tmp_path, "berlin", "paris")
    import time

    now = time.time()
    berlin, paris = (
        Controls("shop", "default", name, operators=["berlin"],
                 sign=make_signer(CertificateFiles.in_folder(folder, name)),
                 vouch=make_voucher(CertificateFiles.in_folder(folder, name)))
        for name in ("berlin", "paris")
    )  # fmt: skip
    berlin.pin("green", ARMS)
    assert paris.receive("berlin", berlin.make_message(), now) == []
    assert paris.filter_arms(ARMS, None) == ["green"]
    # over, or not begun: nothing is taken, though the signature is good
    for lifetime, late in ((timedelta(seconds=-10), 0.0), (timedelta(days=1), -7200.0)):
        sign = make_signer(issue_for(folder, "berlin", lifetime, "other"))
        berlin.configure_operators(
            ["berlin"], sign, make_voucher(CertificateFiles.in_folder(folder, "berlin"))
        )
        berlin.pause("red", ARMS)
        vouch = make_voucher(CertificateFiles.in_folder(folder, "paris"))
        fresh = Controls("shop", "default", "rome", operators=["berlin"], vouch=vouch)
        assert (
            "certificate_invalid" in fresh.receive("berlin", berlin.make_message(), now + late)[-1]
        )
        assert not fresh.has_effect
    # a certificate of paris does not speak for berlin, nor one of another authority
    control = Control("shop", "default", 2, "berlin", "red")
    strangers = certified(tmp_path / "strangers", "berlin")
    for files in (
        CertificateFiles.in_folder(folder, "paris"),
        CertificateFiles.in_folder(strangers, "berlin"),
    ):
        forged = dataclasses.replace(control, signature=make_signer(files)(control.content))
        assert paris.accept_control(forged, now) == "control_signature_invalid"
    for damaged in (b"", b"\0" * 4, b"\xff" * 200, forged.signature[:50]):
        forged = dataclasses.replace(control, signature=damaged)
        assert paris.accept_control(forged, now) == "control_signature_invalid"


class TestPeople:
    """Who gave a command and why: signed, and in every sentence about it."""

    def test_they_are_part_of_the_record_and_of_what_is_signed(self):
        made = controls("berlin")
        first = made.pin("green", ARMS, by="Ada", reason="it won")
        assert (first.by, first.reason, first.note) == ("Ada", "it won", " (Ada: it won)")
        assert made.describe_status(ARMS)["network"]["reason"] == "it won"
        other = controls("rome")
        assert other.accept_control(first, NOW) is None
        forged = dataclasses.replace(record(2), by="Eve")
        assert other.accept_control(forged, NOW) == "control_signature_invalid"
        last = made.pause("red", ARMS)  # nobody says who: not Ada again
        assert (last.pinned, last.note) == ("green", "")

    @pytest.mark.parametrize(("by", "reason"), [("a" * 101, ""), ("", "r" * 301), ("a\nb", "")])
    def test_they_are_one_short_line(self, by, reason):
        with pytest.raises(ValueError, match="must be one line of at most"):
            controls("berlin").pin("green", ARMS, by, reason)
        bad = signed(Control("shop", "default", 1, "berlin", "green", by=by, reason=reason))
        assert controls("rome").accept_control(bad, NOW) == "malformed_control"

    def test_a_repeated_command_makes_no_new_version(self):
        made = controls("berlin")
        first = made.pin("green", ARMS, "Ada", "it won")
        assert made.pin("green", ARMS, "Bob") is first

    def test_sentences_of_changes_name_them(self):
        before, after = {}, {("pin", "blue"): "here", ("forget", "paris"): "here"}
        assert describe_changes(before, after, " (Ada: closed)") == [
            ("pin", "blue is pinned here (Ada: closed)"),
            ("forget", "paris is forgotten here (Ada: closed)"),
        ]


class TestForgotten:
    """Agents that left, each with the time of its last status."""

    def test_they_are_kept_beside_pins_and_survive_a_restart_and_the_wire(self):
        made = controls("berlin")
        made.pin("green", ARMS)
        made.forget("paris", 500, "Ada", "closed")
        made.resume(None, ARMS)
        last = made.forget("oslo", 7)
        assert made.forgotten_agents() == {"oslo": 7, "paris": 500}
        assert acting(made) == (None, [])
        assert not made.has_effect
        again = controls("berlin")
        again.restore(made.state())
        assert again.forgotten_agents() == {"oslo": 7, "paris": 500}
        codec = Codec(ControlMessage)
        parcel = codec.decode(codec.encode(ControlMessage((last,)), "default"))
        other = controls("rome")
        assert other.receive("berlin", parcel.message, NOW) == []
        assert other.forgotten_agents() == {"oslo": 7, "paris": 500}

    def test_a_later_status_replaces_the_time_and_the_oldest_make_room(self):
        made = controls("berlin")
        for number in range(MOST_FORGOTTEN + 5):
            made.forget(f"agent-{number}", number)
        assert len(made.forgotten_agents()) == MOST_FORGOTTEN
        assert "agent-4" not in made.forgotten_agents()
        made.forget("agent-7", 9999)
        assert made.forgotten_agents()["agent-7"] == 9999

    def test_an_agent_does_not_forget_itself(self):
        with pytest.raises(Conflict, match="berlin is this agent"):
            controls("berlin").forget("berlin", 0)

    @pytest.mark.parametrize(
        "rows", [[("a", 1)], (("b", 1), ("a", 1)), (("a", 1), ("a", 2)), (("a", -1),), (("a",),)]
    )
    def test_malformed_ones_are_refused(self, rows):
        bad = signed(Control("shop", "default", 1, "berlin", forgotten=rows))
        assert controls("rome").accept_control(bad, NOW) == "malformed_control"
