"""Congestion controllers in Python, and the environment over them."""

import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import bentpipe
from bentpipe.gym import CongestionEnv

LOSSY = bentpipe.parse(
    bentpipe.EXAMPLE.replace(
        'rate = "1 Mbit/s"\n', 'rate = "1 Mbit/s"\nchannel = { kind = "packet-errors", loss = 0.01 }\n'
    )
)
CONTROLLER = "flow.file.traffic.controller"


class Inherited(bentpipe.Controller):
    """New Reno, by inheritance alone."""


class Gentle(bentpipe.Controller):
    """New Reno with a smaller reduction."""

    def on_loss(self, loss: Any) -> None:
        super().on_loss(loss)
        self.ssthresh = self.cwnd = max(0.9 * loss.flight, 2 * self.smss)


class Broken(bentpipe.Controller):
    """Fails at its tenth acknowledgement."""

    seen = 0

    def on_ack(self, ack: Any) -> None:
        self.seen += 1
        if self.seen == 10:
            raise ArithmeticError("the tenth")


class NoNumber(bentpipe.Controller):
    """Loses its window."""

    def on_established(self, now: float, rtt: float | None) -> None:
        self.cwnd = float("nan")


class Unborn(bentpipe.Controller):
    """Cannot be made."""

    def __init__(self, connection: Any) -> None:
        raise LookupError("no such controller")


def test_new_reno_in_python_is_the_built_in_one(tmp_path: Path) -> None:
    swept = LOSSY.sweep({CONTROLLER: ["newreno", Inherited, Gentle]})
    results = swept.run(seeds=2, out=tmp_path, jobs=2)
    goodputs = [results.values("flow.file.goodput", point=point) for point in range(3)]
    assert goodputs[0] == goodputs[1] != goodputs[2]
    assert min(goodputs[2]) > 0.2e6
    prints = results.fingerprints
    assert prints[0:2] == prints[2:4]
    assert prints[4:6] != prints[2:4]


def test_exceptions_end_the_run_and_come_out(tmp_path: Path) -> None:
    with pytest.raises(ArithmeticError, match="the tenth"):
        LOSSY.set(CONTROLLER, Broken).run(out=tmp_path)
    with pytest.raises(ValueError, match="NoNumber: cwnd is nan"):
        LOSSY.set(CONTROLLER, NoNumber).run(out=tmp_path)
    unborn = LOSSY.set(CONTROLLER, Unborn)
    with pytest.raises(LookupError, match="no such controller"):
        unborn.run(out=tmp_path)


def test_what_cannot_travel_is_refused(tmp_path: Path) -> None:
    mine = LOSSY.set(CONTROLLER, Gentle)
    with pytest.raises(pickle.PicklingError, match="Gentle@[0-9a-f]{12}"):
        pickle.dumps(mine)
    with pytest.raises(ValueError, match="Gentle@.*other processes run a campaign"):
        bentpipe.campaign.plan(mine, tmp_path / "campaign")
    with pytest.raises(bentpipe.ScenarioError, match='no controller "Elsewhere@1" is registered'):
        LOSSY.set(CONTROLLER, {"name": "custom", "id": "Elsewhere@1"}).check()
    assert pickle.loads(pickle.dumps(LOSSY)).hash == LOSSY.hash


def test_the_hash_covers_the_source() -> None:
    hashes = []
    for factor in (0.5, 0.6):
        kind = type("Scaled", (bentpipe.Controller,), {"source": f"factor {factor}"})
        hashes.append(LOSSY.set(CONTROLLER, kind).hash)
    assert hashes[0] != hashes[1]
    with pytest.raises(ValueError, match="source of Nowhere cannot be found"):
        LOSSY.set(CONTROLLER, type("Nowhere", (bentpipe.Controller,), {}))


def test_the_environment_passes_the_standard_check() -> None:
    env = CongestionEnv(LOSSY, "file")
    with warnings.catch_warnings():
        # Bounds of an observation are far apart on purpose.
        warnings.simplefilter("ignore")
        check_env(env)
    env.close()


def test_equal_actions_give_equal_episodes() -> None:
    def episode(seed: int) -> tuple[list[float], float]:
        env = CongestionEnv(LOSSY, "file")
        choose = random.Random(3)
        rewards, over = [], False
        env.reset(seed=seed)
        while not over:
            _, reward, over, _, info = env.step([choose.uniform(-0.5, 0.6)])
            rewards.append(reward)
        goodput = info["results"].value("flow.file.goodput").mean
        env.close()
        return rewards, goodput

    first = episode(1)
    assert first == episode(1) != episode(2)
    # 20 s of round trips of 0.56 s and more, queueing included.
    assert 10 < len(first[0]) < 37
    with pytest.raises(RuntimeError, match="reset"):
        CongestionEnv(LOSSY, "file").step([0.0])
    with pytest.raises(ValueError, match="without a sweep"):
        CongestionEnv(LOSSY.sweep({CONTROLLER: ["cubic"]}), "file")


def test_an_episode_that_is_left_ends() -> None:
    env = CongestionEnv(LOSSY, "file")
    for seed in range(5):
        env.reset(seed=seed)
        env.step([0.1])
    env.close()


def test_an_agent_learns_to_ignore_losses(tmp_path: Path) -> None:
    """A linear policy found by the cross-entropy method, beside New Reno on GEO at a loss of 1e-3 over ten seeds."""
    scenario = LOSSY.set("link.satellite.channel.loss", 0.001).set("duration", "60 s")
    scenario = scenario.set("link.satellite.rate", "4 Mbit/s")
    env = CongestionEnv(scenario, "file")

    def goodput(weights: Any, seed: int) -> float:
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            features = np.array([1.0, min(observation[1], 2.0), min(observation[2], 2.0)])
            observation, _, over, _, info = env.step([float(np.tanh(weights @ features))])
        return float(info["results"].value("flow.file.goodput").mean)

    generator = np.random.default_rng(1)
    mean, spread = np.zeros(3), np.ones(3)
    for generation in range(3):
        tries = [mean + spread * generator.standard_normal(3) for _ in range(8)]
        tries.sort(key=lambda weights: -goodput(weights, 1000 + generation))
        best = np.array(tries[:3])
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.1
    seeds = range(1, 11)
    learnt = np.mean([goodput(mean, seed) for seed in seeds])
    env.close()
    results = scenario.set(CONTROLLER, "newreno").run(seed=1, seeds=10, out=tmp_path)
    newreno = np.mean(results.values("flow.file.goodput"))
    print(f"agent {learnt / 1e6:.3f}, New Reno {newreno / 1e6:.3f} Mbit/s")
    assert learnt > 1.1 * newreno
