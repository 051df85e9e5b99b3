"""Which versions of the wire format a neighbour is spoken to in."""

from posse.live.dialects import AGAIN, LONG, SOON, Dialects


def test_a_neighbour_is_spoken_to_as_it_speaks():
    dialects = Dialects()
    assert dialects.spoken_to("b", 0.0) == (2, 1)
    assert dialects.shown("b") is None
    dialects.heard("b", 1, 0.0)  # a new one that has not heard us speaks so, too
    assert dialects.spoken_to("b", 1.0) == (2, 1)
    for now in range(int(LONG) + 1):
        dialects.heard("b", 1, float(now))
    assert dialects.spoken_to("b", LONG + 1) == (1,)
    assert dialects.shown("b") == 1
    assert dialects.spoken_to("b", AGAIN + 1) == (2, 1)  # it may have become newer since
    assert dialects.spoken_to("b", AGAIN + LONG + 1) == (1,)
    dialects.heard("b", 2, 2000.0)
    assert dialects.spoken_to("b", 2000.0) == (2,)
    dialects.heard("b", 1, 2001.0)  # it says both until it has heard us
    assert dialects.spoken_to("b", 2002.0) == (2,)
    assert dialects.shown("b") == 2
    # it went back to 0.1; seen: it was told nothing that it understands for a minute
    assert dialects.spoken_to("b", 2001.0 + SOON) == (2, 1)
    dialects.heard("b", 1, 2001.0 + LONG)
    assert dialects.spoken_to("b", 2002.0 + LONG) == (1,)
    assert dialects.shown("b") == 1
    assert dialects.spoken_to("c", 0.0) == (2, 1)
