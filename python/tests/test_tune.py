"""Tuning from Python: budgets, progress, Ctrl-C, plans."""

import json
import signal
import threading

import numpy as np
import pytest

import heddle as hd
from heddle._tune import seconds_of


def test_budgets():
    assert [seconds_of(b) for b in (2, 0.5, "90", "90s", "5m", "1h30m")] == [2, 0.5, 90, 90, 300, 5400]
    with pytest.raises(hd.Error, match="no time"):
        seconds_of("soon")


def test_a_declaration(tmp_path):
    x, w = hd.placeholder((64, 64)), hd.placeholder((64, 64))
    y = hd.ops.matmul(x, w)
    seen = []
    found = hd.tune(y, 20, max_trials=4, log=tmp_path / "log.jsonl", progress=seen.append)
    assert found.report.trials > 0 and seen and (tmp_path / "log.jsonl").exists()
    a = np.ones((64, 64), np.float32)
    np.testing.assert_allclose(hd.build(found.schedule, [x, w, y])(a, a), 64, rtol=1e-5)


def test_until_it_is_near():
    x = hd.placeholder((64, 64))
    found = hd.tune(hd.ops.softmax(x), 60, max_trials=40, until=0.9, progress=False)
    assert found.report.within == 0.9 and found.report.tasks[0].near >= 0.8 and found.report.trials < 40
    with pytest.raises(hd.Error, match="until is 5"):
        hd.tune(hd.ops.softmax(x), 2, until=5, progress=False)


def test_a_network_goes_on_from_its_plan(digits_path, tmp_path):
    plan, image = tmp_path / "digits.heddle", np.ones((1, 1, 8, 8), np.float32)
    net = hd.load(digits_path, dims={"batch": 1})
    before = net(image)
    report = net.tune(3, plan=plan, log=tmp_path / "log.jsonl", progress=False)
    assert report.tasks and plan.exists()
    np.testing.assert_allclose(net(image), before, rtol=1e-4, atol=1e-5)
    again = hd.load(digits_path, dims={"batch": 1}, plan=plan)
    assert again.plan_use
    np.testing.assert_allclose(again(image), before, rtol=1e-4, atol=1e-5)


def test_the_plan_of_another_network_is_refused(digits_path, tmp_path):
    plan = tmp_path / "digits.heddle"
    hd.load(digits_path, dims={"batch": 1}).tune(2, plan=plan, max_trials=1, progress=False)
    kept = plan.read_bytes()
    with pytest.raises(hd.Error, match="plan of another network"):
        hd.load(digits_path, dims={"batch": 2}).tune(2, plan=plan, max_trials=1, progress=False)
    assert plan.read_bytes() == kept


def test_the_first_interrupt_keeps_what_was_found():
    x = hd.placeholder((128, 128))
    y = hd.ops.matmul(x, x)
    timer = threading.Timer(2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    found = hd.tune(y, "10m", progress=False)
    assert found.report.cancelled and found.schedule is not None


def nodes_of(plan):
    return {node["hash"]: node for node in json.loads(plan.read_text())["nodes"]}


def test_tuning_again_keeps_what_was_proven(digits_path, tmp_path):
    plan, log = tmp_path / "digits.heddle", tmp_path / "log.jsonl"
    net = hd.load(digits_path, dims={"batch": 1}, threads=1)
    assert net.tune(6, plan=plan, progress=False).network.standing_seconds == 0, "there was no plan"
    # As if all other choices about the graph had been raced, which takes longer on a busy machine.
    plan.write_text(plan.read_text().replace('"passes_proof": "none"', '"passes_proof": "race"'))
    first, nodes = json.loads(plan.read_text()), nodes_of(plan)
    assert first["passes_proof"] == "race"
    net = hd.load(digits_path, dims={"batch": 1}, threads=1, plan=plan)
    report = net.tune(4, plan=plan, log=log, progress=False)
    again = json.loads(plan.read_text())
    # Choices about the graph are not raced again, and what the plan has is the first entrant of the races.
    assert (again["passes"], again["passes_proof"]) == (first["passes"], first["passes_proof"])
    assert report.network.standing_seconds > 0
    for key, node in nodes_of(plan).items():
        assert node["proof"] == nodes[key]["proof"] or node["proof"] == "race"
        runners_up = node.get("runners_up", [])
        assert len(runners_up) <= 3 and node["schedule"] not in runners_up
    assert any("runners_up" in node for node in nodes_of(plan).values())
    assert log.read_text().count("\n") >= report.trials > 0


def test_kernels_of_a_range_are_in_the_plan_and_stay(digits_path, tmp_path):
    plan, log = tmp_path / "digits.heddle", tmp_path / "log.jsonl"
    net = hd.load(digits_path, dims={"batch": (1, 4)}, threads=1)
    images = [np.full((n, 1, 8, 8), 0.5, np.float32) for n in (1, 3, 4)]
    before = [net(x) for x in images]
    net.tune(6, plan=plan, log=log, progress=False)
    kernels = {key: node["kernels"] for key, node in nodes_of(plan).items() if "kernels" in node}
    assert kernels and log.exists()
    again = hd.load(digits_path, dims={"batch": (1, 4)}, threads=1, plan=plan)
    assert again.plan_use
    for x, want in zip(images, before):
        np.testing.assert_allclose(again(x), want, rtol=1e-4, atol=1e-5)
    again.tune(4, plan=plan, log=log, progress=False)
    assert {key for key, node in nodes_of(plan).items() if "kernels" in node} >= kernels.keys()


def test_a_plan_is_applied_while_templates_leave_the_cache():
    """They give arrays of numpy back, for which other threads need the interpreter: it hung."""
    x = hd.placeholder((3, 8), "f32", "x")
    net = hd.Network([hd.ops.matmul(hd.ops.tanh(x), hd.constant(np.ones((8, 5 + i), np.float32))) for i in range(12)], [x])
    for i in range(300):  # more than the cache holds
        hd.make_template([hd.ops.add(hd.placeholder((3, 9 + i)), hd.constant(np.ones((3, 9 + i), np.float32)))])
    assert str(hd._heddle.Plan().apply(net._graph))
