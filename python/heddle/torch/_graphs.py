"""CUDA graphs of whole compiled graphs, for the modes that ask for them: PyTorch's own, as its backend "cudagraphs" makes them."""

import logging

log = logging.getLogger("heddle.torch")


def with_cuda_graphs(run, graph_module, inputs, static, is_inference):
    """`run`, a boxed function, as CUDA graphs where PyTorch can record it; else as it is, and the log says why.

    graph_module   what it computes; `static`: the positions of inputs whose addresses stay
    """
    from torch._dynamo.backends import cudagraphs
    from torch._inductor.cudagraph_trees import cudagraphify_impl
    from torch._inductor.cudagraph_utils import get_placeholder_info

    reason = cudagraphs.check_for_skip(graph_module, len(static))
    if reason:
        log.info("no CUDA graphs: %s", reason)
        return run
    recorded = cudagraphify_impl(run, inputs, sorted(static), device_index=cudagraphs.get_device_index(graph_module),
                                 is_backward=False, is_inference=is_inference,
                                 stack_traces=cudagraphs.get_stack_traces(graph_module),
                                 placeholders=get_placeholder_info(graph_module.graph),
                                 mutated_input_idxs=cudagraphs.find_input_mutations(graph_module.graph))
    recorded._boxed_call = True
    return recorded
