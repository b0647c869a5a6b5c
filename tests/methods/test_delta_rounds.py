"""delta number by number: what its docstring says, in plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode.errors import ArgumentError
from tests.methods.reference import mean_row, most_steps
from tests.methods.rounds import (
    CLIENTS,
    COUNTER,
    EXAMPLES,
    MATRICES,
    STATISTICS,
    VECTORS,
    Arrays,
    Ends,
    Exchange,
    Floats,
    model,
    row,
    train,
)

K = 16


def rounded_up(value: float) -> float:
    """The next float of eight significant bits."""
    bits = (int(np.float32(value).view(np.uint32)) + 0xFFFF) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def on_the_ladder(weights: Floats, step: float, before: Floats | None) -> tuple[Floats, float]:
    """Each weight on its rung, and the step: even steps, K of them over sixteen times the rms.

    A step that is right within half as much again is kept. A weight stays on the rung where all have it while it is
    within 0.6 steps of it, and then goes as few rungs as bring it that near; a new one goes to the nearest.
    """
    right = 16 * float(np.sqrt(np.square(weights).mean())) / K
    if not step / 1.5 <= right <= step * 1.5:
        step = rounded_up(right)
    if before is None:
        rungs = np.rint(weights / step)
    else:
        rungs = np.rint(before / step)
        for i, weight in enumerate(weights):
            while weight / step - rungs[i] > 0.6:
                rungs[i] += 1
            while weight / step - rungs[i] < -0.6:
                rungs[i] -= 1
    return rungs.clip(round(weights.min() / step), round(weights.max() / step)) * step, step


def same_at_eight_bits(found: Arrays, exact: Arrays, names: tuple[str, ...]) -> None:
    """Each value within a step of its tensor's 256 levels; variances within their logarithm's."""
    for name in names:
        values = exact[name].astype(np.float64)
        if name.endswith("var"):
            span = np.log(values.max() / values.min()) + 0.01
            np.testing.assert_allclose(np.log(found[name]), np.log(values), atol=1.5 * span / 255)
        else:
            step = (values.max() - values.min() + np.abs(values).max() / 128) / 255  # its scale is rounded outwards
            np.testing.assert_allclose(found[name], values, atol=0.51 * step * 1.01)


def decoded(ends: Ends, client: str, found: Exchange) -> Floats:
    """The change of the matrices that the server reads out of one reply."""
    alone = Ends(ends.server.method.restore(ends.server.to_bytes()))
    alone.server.message_for(client)
    alone.server.accept(client, found.reply_bytes)
    alone.server.finish_round()
    return row(alone.state, MATRICES) - row(ends.state, MATRICES)


def change_of(found: Exchange) -> Floats:
    return row(found.trained, MATRICES) - row(found.start, MATRICES)


def entropy(values: Floats) -> float:
    """Bits a value, of order 0."""
    share = np.unique(values, return_counts=True)[1] / values.size
    return float(-(share * np.log2(share)).sum())


def parts(values: Floats) -> list[Floats]:
    """A row of matrices cut into them."""
    return np.split(values, np.cumsum([model()[name].size for name in MATRICES])[:-1])


def scaled(values: Floats, change: Floats) -> Floats:
    """Each matrix in units of the rms of its own change, rounded up to sixteen bits."""
    out = []
    for part, own in zip(parts(values), parts(change), strict=True):
        out.append(part / rounded_up(np.sqrt(np.square(own).mean())))
    return np.concatenate(out)


def test_everybody_decodes_the_same_base_on_one_ladder() -> None:
    ends = Ends.of("delta", clusters=K)
    step, before = 0.0, None
    steps = set()
    # new ones, stale ones and those of last round
    for clients in (CLIENTS[:1], CLIENTS[:2], CLIENTS, CLIENTS[1:], CLIENTS[:1], CLIENTS):
        state = ends.state
        before, step = on_the_ladder(row(state, MATRICES), step, before)
        steps.add(step)
        starts = [found.start for found in ends.round(clients).values()]
        for start in starts:
            np.testing.assert_allclose(row(start, MATRICES), before, rtol=1e-6)
            same_at_eight_bits(start, state, (*VECTORS, *STATISTICS))
            assert start[COUNTER] == state[COUNTER]
            for name, value in starts[0].items():
                np.testing.assert_array_equal(start[name], value)
    assert len(steps) < 6  # it is kept from round to round


def test_a_weight_that_has_not_clearly_left_its_rung_stays_there() -> None:
    ends = Ends.of("delta", clusters=K)
    first = row(ends.round()["client-0"].start, MATRICES)
    weights = row(ends.state, MATRICES)
    second = row(ends.exchange("client-0").start, MATRICES)
    step = float(np.diff(np.unique(first)).min())
    nearest_rung = np.rint(weights / step) * step
    assert ((second == first) & ~np.isclose(second, nearest_rung)).any()  # further than half a step, and kept
    assert (np.abs(second - weights) < 0.61 * step).all()


def test_the_mean_change_goes_to_the_servers_own_unclustered_model() -> None:
    ends = Ends.of("delta", clusters=K)
    for _ in range(3):
        before = ends.state
        exchanges = {client: ends.exchange(client) for client in CLIENTS}
        changes = {client: decoded(ends, client, found) for client, found in exchanges.items()}
        for client, found in exchanges.items():
            ends.server.accept(client, found.reply_bytes)
        ends.server.finish_round()
        expected = row(before, MATRICES) + mean_row(changes)
        np.testing.assert_allclose(row(ends.state, MATRICES), expected, rtol=2e-6, atol=2e-7)
        trained = {client: found.trained for client, found in exchanges.items()}
        assert ends.state[COUNTER] == most_steps(trained)
        n = sum(EXAMPLES.values())
        for name in VECTORS:
            moved = sum(EXAMPLES[c] / n * (f.trained[name].astype(float) - f.start[name]) for c, f in exchanges.items())
            np.testing.assert_allclose(ends.state[name], before[name] + moved, atol=0.02)
        for name in STATISTICS:
            mean = sum(EXAMPLES[c] / n * f.trained[name].astype(float) for c, f in exchanges.items())
            np.testing.assert_allclose(ends.state[name], mean, rtol=0.03, atol=0.01)


@pytest.mark.parametrize("bits", [1.0, 2.0, 4.0])
def test_a_change_is_one_codebook_over_all_matrices_each_on_its_own_scale(bits: float) -> None:
    ends = Ends.of("delta", bits=bits, warm_bits=bits, debias=False)
    found = ends.exchange("client-0")
    change, seen = change_of(found), decoded(ends, "client-0", found)
    true, coded = scaled(change, change), scaled(seen, change)
    cells = np.round(coded, 4)  # the server's sums round in the last places
    centers = np.unique(cells)
    assert entropy(cells) <= bits + 0.02
    order = np.argsort(true)
    assert (np.diff(cells[order]) >= 0).all()  # thresholds, not whims
    for center in centers:
        np.testing.assert_allclose(true[cells == center].mean(), center, atol=1e-3)
    lost = float(np.square(true - coded).sum() / np.square(true).sum())
    assert lost < {1.0: 0.45, 2.0: 0.13, 4.0: 0.01}[bits]  # a Gaussian source loses 0.33, 0.09 and 0.006


def test_the_first_round_is_richer() -> None:
    ends = Ends.of("delta", bits=1.0, warm_bits=4.0)
    rates = []
    for _ in range(2):
        found = {client: ends.exchange(client) for client in CLIENTS}
        rates.append(entropy(np.round(scaled(decoded(ends, "client-0", found["client-0"]),
                                             change_of(found["client-0"])), 4)))  # fmt: skip
        for client, one in found.items():
            ends.server.accept(client, one.reply_bytes)
        ends.server.finish_round()
    assert rates[0] > 3.5
    assert rates[1] < 1.05


def test_a_residual_is_what_was_not_sent_and_decays() -> None:
    ends = Ends.of("delta", residual=0.9, bits=1.0, warm_bits=1.0)
    found = ends.exchange("client-0")
    left = change_of(found) - decoded(ends, "client-0", found)
    ends.server.accept("client-0", found.reply_bytes)
    ends.server.finish_round()

    second = ends.exchange("client-0")
    seen = decoded(ends, "client-0", second)
    # a client without a memory whose training went by as much further sends the same
    twin = Ends.of("delta", bits=1.0, warm_bits=1.0, debias=False)
    at = 0
    further: dict[str, Any] = {}
    for name in MATRICES:
        size = model()[name].size
        further[name] = 0.9 * left[at : at + size].reshape(model()[name].shape)
        at += size
    target = {name: second.trained[name] - second.start[name] + further[name] for name in MATRICES}

    def beyond(start: Any, client: str, round: int) -> Arrays:
        return train(start, client, round) | {
            name: (start[name] + target[name]).astype(np.float32) for name in MATRICES
        }

    twin.training = beyond
    expected = decoded(twin, "client-0", twin.exchange("client-0"))
    np.testing.assert_allclose(seen, expected, rtol=1e-3, atol=1e-4)


def test_debias_makes_the_change_as_long_along_itself() -> None:
    plain, longer = (Ends.of("delta", bits=0.5, warm_bits=0.5, debias=debias) for debias in (False, True))
    one, other = plain.exchange("client-0"), longer.exchange("client-0")
    change = change_of(one)
    true = scaled(change, change)
    short, right = (scaled(decoded(ends, "client-0", found), change) for ends, found in ((plain, one), (longer, other)))
    lost = np.square(true - short).sum() / np.square(true).sum()
    np.testing.assert_allclose(right, short / (1 - lost), rtol=2e-3, atol=1e-4)
    assert right @ true == pytest.approx(true @ true, rel=2e-3)
    assert short @ true < 0.9 * (true @ true)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"clusters": 1}, "clusters must be from 2 to 4096: got 1"),
        ({"bits": 0.01}, "bits must be from 0.05 to 6.0 a weight: got 0.01"),
        ({"bits": float("nan")}, "bits must be from 0.05 to 6.0 a weight: got nan"),
        ({"warm_bits": 7}, "warm_bits must be from 0.05 to 6.0 a weight: got 7"),
        ({"vector_bits": 9}, "vector_bits must be from 2 to 8: got 9"),
        ({"residual": 1.5}, "residual must be from 0 .* to 1: got 1.5"),
        ({"labels": "rice"}, "labels must be one of packed, entropy, context: got 'rice'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_it_may_be(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        fedcode.method("delta", **settings)
