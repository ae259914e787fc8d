"""Timing of calls in turns, so that a busy machine disturbs all alike."""
import random
import statistics
import time

# Seconds in which the threads of the one that ran before stop waiting actively. On as many cores as
# threads they would take a core from the next one.
PAUSE = 0.1


def second_call(call, finish=lambda: None, pause=PAUSE, clock=time.perf_counter):
    """Seconds of the second of two calls. `finish` waits for a device."""
    time.sleep(pause)
    call()
    finish()
    begin = clock()
    call()
    finish()
    return clock() - begin


def race(calls, seconds, sample=second_call, middle=statistics.median):
    """Seconds of each call: medians over rounds in which all run, in a new order each time. sample(call) times one; `middle` is what
    is said of the times of all rounds."""
    times = {name: [] for name in calls}
    order = list(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[order[0]]) < 5:
        random.shuffle(order)
        for name in order:
            times[name].append(sample(calls[name]))
    return {name: middle(t) for name, t in times.items()}
