"""Random functions by the backend of torch.compile against eager PyTorch; random_graphs.py compares as many as one likes."""

import os

import pytest

pytest.importorskip("torch")
import random_graphs  # noqa: E402

COUNT = int(os.environ.get("HEDDLE_RANDOM_GRAPHS", 16))
SEED = int(os.environ.get("HEDDLE_RANDOM_SEED", 0))


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_a_random_function(seed):
    wrong = random_graphs.difference(seed)
    assert wrong is None, wrong
