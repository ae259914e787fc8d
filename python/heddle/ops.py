"""Operators: functions that declare tensors. Shapes broadcast as numpy's do."""

from ._heddle.ops import *  # noqa: F403
