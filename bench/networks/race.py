"""Timing of calls in turns, so that a busy machine disturbs all alike."""
import random
import statistics
import time

# Seconds in which the threads of the one that ran before stop waiting actively. On as many cores as
# threads they would take a core from the next one.
PAUSE = 0.1


def race(calls, seconds, finish=lambda: None, pause=PAUSE):
    """Seconds of a call: medians of rounds in which each runs twice, the second time timed. `finish` waits for a device."""
    times = {name: [] for name in calls}
    order = list(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[order[0]]) < 5:
        random.shuffle(order)
        for name in order:
            time.sleep(pause)
            calls[name]()
            finish()
            begin = time.perf_counter()
            calls[name]()
            finish()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(t) for name, t in times.items()}
