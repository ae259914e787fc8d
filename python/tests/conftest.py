"""What the tests share: no records of the user, no caches, and the model of lesson 3."""

import os
import pathlib

os.environ.update(HEDDLE_TOPHUB="off", HEDDLE_LOG_FILE="", HEDDLE_CACHE="off")

import pytest  # noqa: E402

import heddle as hd  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parents[2] / "tutorials" / "data"


@pytest.fixture(scope="session")
def digits():
    return hd.load(DATA / "digits.onnx", dims={"batch": 1})


@pytest.fixture
def digits_path():
    return DATA / "digits.onnx"


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error:PyTorch runs a part")
