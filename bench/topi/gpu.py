"""The experiment on a GPU: calls of both as CUDA graphs, in turns, by events. A peer that cannot be captured, because the host reads its
results, is called as it is."""
import numpy as np
import torch

CALLS = 20  # between two events, so that the time of an event is small beside it


def captured(call):
    """(the call as a CUDA graph, or as it is; whether it is one)."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            call()
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay, True
    except Exception:  # noqa: BLE001 - what is in the way of a capture has many types
        torch.cuda.synchronize()
        return call, False


def sample(call):
    """Seconds of a call: the mean of some."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    call()
    begin.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / CALLS


def arrays_of(case, arrays):
    return [torch.from_numpy(a.copy()).cuda() if a.flags.c_contiguous else torch.from_numpy(a.copy("C")).cuda() for a in arrays]


def answer_of_torch(family, case):
    """(call of PyTorch's operator, its answer); (None, None) where it does not run on a GPU. What a case keeps itself, such as the weights of
    a module, is made anew there."""
    tensors = arrays_of(case, case.arrays)
    try:
        return (lambda: case.torch(*tensors)), case.torch(*tensors)
    except Exception:  # noqa: BLE001
        pass
    try:
        with torch.device("cuda"):
            there = family.make()
        return (lambda: there.torch(*tensors)), there.torch(*tensors)
    except Exception:  # noqa: BLE001
        return None, None


def measured(family, case, network, arrays, seconds, race, error_of):
    """A row of the table: right or not, and seconds."""
    tensors = arrays_of(case, arrays)
    many = lambda x: list(x) if isinstance(x, (list, tuple)) else [x]
    host = lambda values: [t.cpu().numpy() for t in many(values)]
    # Without inputs there is no tensor that says where results are wanted.
    outputs = [t if isinstance(t, torch.Tensor) else torch.from_numpy(np.asarray(t)).cuda() for t in many(network(*tensors))]
    ours, ours_graph = captured(lambda: network(*tensors, out=outputs if len(outputs) > 1 else outputs[0]))
    answers = host(outputs)
    answers = answers[0] if len(answers) == 1 else answers
    call, expected = answer_of_torch(family, case) if case.torch else (None, None)
    if "random" in family.title:
        right = all(bool(v) for v in case.rows(answers))
    else:
        if expected is not None:
            expected = host(expected)
        elif case.torch:
            expected = host(case.torch(*[torch.from_numpy(a.copy("C")) for a in case.arrays]))
        else:
            expected = case.numpy(*case.arrays)
        right = bool(error_of(case, answers, expected) <= max(case.tolerance, 1e-4))
    calls = {"ours": ours}
    row = {"family": family.title, "right": right, "graph": ours_graph}
    if call:
        calls["torch"], row["torch_graph"] = captured(call)
    return row | race(calls, seconds, sample=sample, middle=min)
