"""The cases of the experiment: for each family of TOPI's operators a declaration, inputs, and what it is compared with.

@case(title, "names of TOPI's schedule functions") registers a function that returns a Case.
"""
import dataclasses

import numpy as np

CASES = []


@dataclasses.dataclass
class Case:
    arrays: list                      # inputs, of numpy
    ours: object                      # tensors of Heddle -> a tensor, or several
    torch: object = None              # tensors of PyTorch -> the same, by PyTorch's operator: the peer
    numpy: object = None              # arrays -> the same, where PyTorch has no operator
    constants: tuple = ()             # the numbers of inputs that are weights
    tolerance: float = 1e-4           # relative to the largest element
    rows: object = None               # (outputs) -> what of them are results, where the length is data


@dataclasses.dataclass
class Family:
    title: str
    size: str
    schedules: tuple                  # of TOPI, without "schedule_"
    make: object


def case(title, schedules="", size=""):
    def register(make):
        CASES.append(Family(title, size, tuple(schedules.split()), make))
        return make
    return register


def f32(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype(np.float32)


def ints(low, high, *shape, dtype=np.int64, seed=0):
    return np.random.default_rng(seed + sum(shape)).integers(low, high, shape).astype(dtype)
