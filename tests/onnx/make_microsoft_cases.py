#!/usr/bin/env python3
"""Writes cases of operators of the domain com.microsoft, and of ONNX's that have no node tests, with the results
of ONNX Runtime, in the format of make_cases.py: one node each.

    make_microsoft_cases.py all.bin                  all
    make_microsoft_cases.py --only Attention some.bin    those of one operator
"""
import argparse
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from make_cases import add_tensor, write_case

MICROSOFT = "com.microsoft"
random = np.random.default_rng(7)
cases = []


def floats(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float32)


def bytes_of(dtype, *shape):
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


def number(value, dtype=np.float32):
    return np.asarray(value, dtype)


def case(name, op, inputs, outputs=1, known=(), domain=MICROSOFT, default_opset=21, **attributes):
    """A case of one node. `inputs` are arrays, or None where one is left out; those at the positions `known` are
    initialisers. `outputs` is a number, or the names of those that are compared, "" for others."""
    if isinstance(outputs, int):
        outputs = [f"y{i}" for i in range(outputs)]
    cases.append((name, op, inputs, outputs, set(known), domain, default_opset, attributes))


def pack(name, op, inputs, outputs, known, domain, opset, attributes):
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    graph = helper.make_graph([node], name, [], [])
    feed = {}
    for i, x in enumerate(inputs):
        if x is None:
            continue
        if i in known:
            graph.initializer.append(numpy_helper.from_array(x, names[i]))
        else:
            feed[names[i]] = x
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            graph.input.append(helper.make_tensor_value_info(names[i], kind, x.shape))
    for output in filter(None, outputs):
        graph.output.append(helper.make_empty_tensor_value_info(output))
    sets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # threads of an LSTM quantise the rows of their own
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    made = session.run(None, feed)
    model.graph.ClearField("input")
    model.graph.ClearField("output")
    for input_name, value in feed.items():
        add_tensor(model, model.graph.input, "input", input_name, value)
    for output, value in zip(filter(None, outputs), made):
        add_tensor(model, model.graph.output, "output", output, value)
    return model.SerializeToString()


def norms():
    x, skip, gamma, beta, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    case("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], ["y", "", "", "sum"])
    case("skip_layer_norm_plain", "SkipLayerNormalization", [x, skip, gamma], epsilon=1e-5)
    case("skip_layer_norm_broadcast", "SkipLayerNormalization", [x, skip[:1], gamma, beta])
    case("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], ["y", "", "", "sum"])
    case("skip_rms_norm_plain", "SkipSimplifiedLayerNormalization", [x, skip, gamma], epsilon=1e-5)
    case("rms_norm", "SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-5)
    ids, segments = random.integers(0, 11, (2, 3)).astype(np.int32), random.integers(0, 2, (2, 3)).astype(np.int32)
    words, places, kinds = floats(11, 8), floats(6, 8), floats(2, 8)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    case("embed_layer_norm", "EmbedLayerNormalization",
         [ids, segments, words, places, kinds, gamma, beta, mask], 2)
    case("embed_layer_norm_sum", "EmbedLayerNormalization",
         [ids, None, words, places, None, gamma, beta], ["y", "m", "sum"])
    case("embed_layer_norm_positions", "EmbedLayerNormalization",
         [ids, segments, words, places, kinds, gamma, beta, None, np.array([[2, 1, 0], [5, 4, 3]], np.int32)], ["y", "m"])


def activations():
    x, bias = floats(3, 8), floats(8)
    case("fast_gelu", "FastGelu", [x])
    case("fast_gelu_bias", "FastGelu", [x, bias])
    case("bias_gelu", "BiasGelu", [x, bias])
    case("gelu", "Gelu", [x])
    case("quick_gelu", "QuickGelu", [x])
    case("quick_gelu_alpha", "QuickGelu", [x], alpha=1.25)


def products():
    a, b = floats(2, 3, 4), floats(2, 4, 5)
    case("fused_matmul", "FusedMatMul", [a, b], alpha=0.5)
    case("fused_matmul_ta_tb", "FusedMatMul", [np.swapaxes(a, 1, 2).copy(), np.swapaxes(b, 1, 2).copy()], transA=1, transB=1)
    case("fused_matmul_batch_a", "FusedMatMul", [np.swapaxes(a, 0, 1).copy(), b], transBatchA=1)
    case("fused_gemm", "FusedGemm", [a[0], b[0], floats(5)], activation="LeakyRelu", activation_alpha=0.2, alpha=0.5)
    case("fused_gemm_tanh", "FusedGemm", [a[0], b[0]], activation="Tanh")
    x, w, bias = floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)
    for name, params in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.75]),
                         ("HardSigmoid", [0.2, 0.5])):
        case(f"fused_conv_{name.lower()}", "FusedConv", [x, w, bias], activation=name,
             **({"activation_params": params} if params else {}))
    case("fused_conv_sum", "FusedConv", [x, w, bias, floats(1, 3, 5, 5)], activation="Relu", pads=[1, 1, 1, 1])
    k, n, block = 40, 6, 16
    blocks = (k + block - 1) // block
    for bits in (4, 8):
        packed = bytes_of(np.uint8, n, blocks, block * bits // 8)
        scales = np.abs(floats(n, blocks)) + np.float32(0.1)
        zeros = bytes_of(np.uint8, n, (blocks * bits + 7) // 8)
        at = dict(K=k, N=n, bits=bits, block_size=block)
        case(f"matmul_{bits}_bits", "MatMulNBits", [floats(2, 3, k), packed, scales], known=(1, 2), **at)
        case(f"matmul_{bits}_bits_zeros", "MatMulNBits", [floats(3, k), packed, scales, zeros], known=(1, 2, 3), **at)
        case(f"matmul_{bits}_bits_bias", "MatMulNBits", [floats(3, k), packed, scales, zeros, None, floats(n)], known=(1, 2, 3), **at)
    case("matmul_4_bits_float_zeros", "MatMulNBits",
         [floats(3, k), bytes_of(np.uint8, n, blocks, block // 2), np.abs(floats(n, blocks)), floats(n, blocks, scale=4)],
         known=(1, 2, 3), K=k, N=n, bits=4, block_size=block)


def quantised():
    for dtype in (np.uint8, np.int8):
        t = np.dtype(dtype).name
        a, b = bytes_of(dtype, 2, 3, 7), bytes_of(dtype, 3, 7)
        za, zb, zc = (number(v, dtype) for v in ((120, 131, 125) if dtype is np.uint8 else (3, -7, 5)))
        for op in ("QLinearAdd", "QLinearMul"):
            sc = number(0.08) if op == "QLinearAdd" else number(0.15)
            case(f"{op.lower()}_{t}", op, [a, number(0.031), za, b, number(0.047), zb, sc, zc], known=(1, 2, 4, 5, 6, 7))
        case(f"qlinearconcat_{t}", "QLinearConcat",
             [number(0.05), zc, a, number(0.031), za, a[:, :1], number(0.05), zc], known=(0, 1, 3, 4, 6, 7), axis=1)
        case(f"qlinearsigmoid_{t}", "QLinearSigmoid", [a, number(0.03), za, number(1 / 256), zb], known=(1, 2, 3, 4))
        case(f"qlinearleakyrelu_{t}", "QLinearLeakyRelu", [a, number(0.03), za, number(0.025), zc], known=(1, 2, 3, 4),
             alpha=0.1)
        case(f"qlinearsoftmax_{t}", "QLinearSoftmax", [b, number(0.03), za, number(1 / 256), number(np.iinfo(dtype).min, dtype)],
             known=(1, 2, 3, 4), axis=-1, opset=13)
        image = bytes_of(dtype, 1, 2, 5, 5)
        pool = [image, number(0.0317), za, number(0.0211), zc]  # no mean lies between two steps
        case(f"qlinearaveragepool_{t}", "QLinearAveragePool", pool, known=(1, 2, 3, 4), kernel_shape=[3, 3], strides=[2, 2],
             pads=[1, 1, 1, 1])
        case(f"qlinearaveragepool_{t}_last", "QLinearAveragePool", [np.moveaxis(image, 1, 3).copy()] + pool[1:],
             known=(1, 2, 3, 4), kernel_shape=[2, 2], channels_last=1)
        case(f"qlinearglobalaveragepool_{t}", "QLinearGlobalAveragePool", pool, known=(1, 2, 3, 4))
        case(f"qlinearglobalaveragepool_{t}_last", "QLinearGlobalAveragePool", [np.moveaxis(image, 1, 3).copy()] + pool[1:],
             known=(1, 2, 3, 4), channels_last=1)
        case(f"nhwcmaxpool_{t}", "NhwcMaxPool", [np.moveaxis(image, 1, 3).copy()], kernel_shape=[2, 2], strides=[2, 2])
    a, b = bytes_of(np.uint8, 3, 8), bytes_of(np.int8, 8, 5)
    za, zb, zy = number(121, np.uint8), number(3, np.int8), number(128, np.uint8)
    per_column = (np.abs(floats(5)) * np.float32(0.01) + np.float32(0.002))
    c = random.integers(-4000, 4000, 5).astype(np.int32)
    case("qgemm", "QGemm", [a, number(0.02), za, b, number(0.01), zb, c, number(0.1), zy], known=range(1, 9))
    case("qgemm_columns", "QGemm", [a, number(0.02), za, b, per_column, np.zeros(5, np.int8), c, number(0.1), zy], known=range(1, 9))
    case("qgemm_float", "QGemm", [a, number(0.02), za, b.T.copy(), number(0.01), zb, c], known=range(1, 7), transB=1, alpha=0.5)
    x = floats(2, 3, 8)
    case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [x, b, number(0.01), zb], known=(1, 2, 3))
    case("dynamic_quantize_matmul_bias", "DynamicQuantizeMatMul", [x, b, per_column, np.zeros(5, np.int8), floats(5)], known=(1, 2, 3, 4))
    case("matmul_integer_to_float", "MatMulIntegerToFloat", [a, b, number(0.02), number(0.01), za, zb], known=(1, 2, 3, 4, 5))
    case("matmul_integer_to_float_columns", "MatMulIntegerToFloat", [a, b, number(0.02), per_column, za, np.zeros(5, np.int8), floats(5)],
         known=range(1, 7))
    wide = bytes_of(np.int16, 2, 3)
    case("dequantize_16_bits", "DequantizeLinear", [wide, number(0.001), number(7, np.int16)], known=(1, 2))
    case("dequantize_channels", "DequantizeLinear", [a, np.abs(floats(8)), bytes_of(np.uint8, 8)], known=(1, 2), axis=1)
    case("quantize_16_bits", "QuantizeLinear", [floats(2, 3), number(0.001), number(7, np.int16)], known=(1, 2))
    case("quantize_bytes", "QuantizeLinear", [floats(2, 3), number(0.02), number(120, np.uint8)], known=(1, 2))


def recurrent():
    # Hidden size 8, input size 6. The file holds the weights the other way round than LSTM does.
    for name, directions, columns, point in (("", 1, (), 0), ("_both", 2, (), 3), ("_channels", 2, (32,), 0)):
        scales = [(random.random((directions, *columns)) * 0.01 + 0.005).astype(np.float32) for _ in range(2)]
        points = [np.full(scale.shape, point, np.int8) for scale in scales]
        inputs = [floats(5, 3, 6), bytes_of(np.int8, directions, 6, 32), bytes_of(np.int8, directions, 8, 32),
                  floats(directions, 64), None, floats(directions, 3, 8), floats(directions, 3, 8), None,
                  scales[0], points[0], scales[1], points[1]]
        case(f"dynamic_quantize_lstm{name}", "DynamicQuantizeLSTM", inputs, 3, known=(1, 2, 3, 8, 9, 10, 11), hidden_size=8,
             direction="bidirectional" if directions == 2 else "forward")


def regions():
    x = floats(2, 2, 6, 7)
    rois = np.array([[0, 0, 0, 6, 5], [1, 2, 1, 5, 3], [0, 3, 3, 3, 3]], np.float32)
    case("max_roi_pool", "MaxRoiPool", [x, rois], domain="", pooled_shape=[2, 2])
    case("max_roi_pool_scaled", "MaxRoiPool", [x, rois * np.float32([1, 2, 2, 2, 2])], domain="", pooled_shape=[3, 2],
         spatial_scale=0.5)
    corners, batch = rois[:, 1:].copy(), rois[:, 0].astype(np.int64)
    case("roi_align_adaptive", "RoiAlign", [x, corners, batch], domain="", output_height=2, output_width=2)
    case("roi_align_opset_10", "RoiAlign", [x, corners, batch], domain="", default_opset=10, output_height=2,
         output_width=2, sampling_ratio=2, spatial_scale=0.8)
    grid = floats(2, 3, 4, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            case(f"grid_sample_{mode}_{padding}", "GridSample", [x, grid], domain="", default_opset=16, mode=mode,
                 padding_mode=padding, align_corners=int(padding == "border"))
    boxes, scores = np.abs(floats(1, 9, 4)), np.abs(floats(1, 2, 9))
    for centred in (0, 1):
        case(f"suppression_{centred}", "NonMaxSuppression",
             [boxes, scores, number(4, np.int64), number(0.2), number(0.1)], domain="", known=(2, 3),
             center_point_box=centred)
    case("resize_cubic_excluded", "Resize", [x, None, number([1, 1, 0.6, 1.7])], domain="", known=(2,), mode="cubic",
         exclude_outside=1)
    case("resize_linear_antialias", "Resize", [x, None, None, number([2, 2, 4, 3], np.int64)], domain="", known=(3,),
         mode="linear", antialias=1)


def rotary():
    cos, sin = np.cos(floats(9, 4)), np.sin(floats(9, 4))
    x = floats(2, 3, 2 * 8)
    for interleaved in (0, 1):
        case(f"rotary_{interleaved}", "RotaryEmbedding", [x, np.array([[3, 4, 5], [0, 1, 2]]), cos, sin], interleaved=interleaved)
    case("rotary_offset", "RotaryEmbedding", [x, np.array([2]), cos, sin])
    case("rotary_heads", "RotaryEmbedding", [floats(2, 2, 3, 8), np.array([[3, 4, 5], [0, 1, 2]]), cos, sin])
    case("rotary_part", "RotaryEmbedding", [floats(2, 2, 3, 10), np.array([[3, 4, 5], [0, 1, 2]]), cos, sin],
         rotary_embedding_dim=8, num_heads=2)


def attention():
    n, s, heads, size = 2, 4, 2, 3
    hidden = heads * size
    x, w, bias = floats(n, s, hidden), floats(hidden, 3 * hidden, scale=0.5), floats(3 * hidden)
    case("attention", "Attention", [x, w, bias], num_heads=heads)
    case("attention_causal", "Attention", [x, w, bias], num_heads=heads, unidirectional=1)
    case("attention_lengths", "Attention", [x, w, bias, np.array([2, 4], np.int32)], num_heads=heads)
    case("attention_ends_starts", "Attention", [x, w, bias, np.array([3, 4, 1, 0], np.int32)], num_heads=heads)
    case("attention_mask", "Attention", [x, w, bias, np.array([[1, 1, 0, 1], [1, 1, 1, 0]], np.int32)], num_heads=heads)
    case("attention_mask_3d", "Attention", [x, w, bias, random.integers(0, 2, (n, s, s)).astype(np.int32)], num_heads=heads)
    case("attention_bias", "Attention", [x, w, bias, None, None, floats(1, heads, s, s)], num_heads=heads, scale=0.3)
    past = floats(2, n, heads, 3, size)
    case("attention_past", "Attention", [x, w, bias, None, past], 2, num_heads=heads, unidirectional=1)
    case("attention_sizes", "Attention", [x, floats(hidden, 6 + 6 + 4, scale=0.5), floats(16)], num_heads=heads,
         qkv_hidden_sizes=[6, 6, 4])
    q, k, v = floats(n, s, hidden), floats(n, 5, hidden), floats(n, 5, heads * 4)
    case("multi_head", "MultiHeadAttention", [q, k, v], num_heads=heads)
    case("multi_head_bias", "MultiHeadAttention", [q, k, v, floats(2 * hidden + heads * 4)], num_heads=heads, scale=0.4)
    case("multi_head_mask", "MultiHeadAttention", [q, k, v, None, np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32)], num_heads=heads)
    case("multi_head_lengths", "MultiHeadAttention", [q, k, v, None, np.array([2, 5], np.int32)], num_heads=heads)
    case("multi_head_added", "MultiHeadAttention", [q, k, v, None, None, floats(n, heads, s, 5)], num_heads=heads)
    case("multi_head_heads", "MultiHeadAttention", [q, floats(n, heads, 5, size), floats(n, heads, 5, size)], num_heads=heads)
    case("multi_head_causal", "MultiHeadAttention", [q, q, q], num_heads=heads, unidirectional=1)
    case("multi_head_past", "MultiHeadAttention", [q, q, q, None, None, None, floats(n, heads, 3, size), floats(n, heads, 3, size)], 3,
         num_heads=heads)
    groups, heads, size = 2, 4, 16
    q, k, v = floats(n, s, heads * size), floats(n, s, groups * size), floats(n, s, groups * size)
    whole, total = np.full(n, s - 1, np.int32), np.array(s, np.int32)
    at = dict(num_heads=heads, kv_num_heads=groups)
    case("group_query", "GroupQueryAttention", [q, k, v, None, None, whole, total], 3, known=(6,), **at)
    case("group_query_known", "GroupQueryAttention", [q, k, v, None, None, whole, total], 3, known=(5, 6), **at)
    case("group_query_scaled", "GroupQueryAttention", [q, k, v, None, None, whole, total], known=(6,), scale=0.2, softcap=1.5, **at)
    case("group_query_packed", "GroupQueryAttention", [np.concatenate([q, k, v], 2), None, None, None, None, whole, total], 3,
         known=(6,), **at)
    case("group_query_window", "GroupQueryAttention", [q, k, v, None, None, whole, total], 3, known=(6,), local_window_size=2, **at)
    cos, sin = np.cos(floats(16, size // 2)), np.sin(floats(16, size // 2))
    case("group_query_rotary", "GroupQueryAttention", [q, k, v, None, None, whole, total, cos, sin], 3, known=(6,), do_rotary=1, **at)
    p = 3
    past_k, past_v = floats(n, groups, p, size), floats(n, groups, p, size)
    one = [x[:, :1] for x in (q, k, v)]
    after = np.full(n, p, np.int32)
    case("group_query_past", "GroupQueryAttention", one + [past_k, past_v, after, np.array(p + 1, np.int32)], 3, known=(6,), **at)
    case("group_query_past_rotary", "GroupQueryAttention",
         one + [past_k, past_v, after, np.array(p + 1, np.int32), cos, sin], 3, known=(6,), do_rotary=1, rotary_interleaved=1, **at)
    case("group_query_ragged", "GroupQueryAttention",
         one + [past_k, past_v, np.array([1, 3], np.int32), np.array(p + 1, np.int32), cos, sin], 3, known=(6,), do_rotary=1, **at)


def buffers():
    """Pasts with room for more keys than there are, and inputs at the edge of what is allowed."""
    heads, groups, size, room = 4, 2, 16, 7
    at = dict(num_heads=heads, kv_num_heads=groups)
    angles = floats(room, size // 2)
    for name, rows, lasts, total, more in (
            ("one", 1, [4, 2], 5, {}), ("rotary", 1, [4, 2], 5, dict(do_rotary=1)), ("chunk", 3, [5], 6, {}),
            ("prompt", 4, [3, 3], 4, {}), ("full", 1, [6, 6], 7, {}), ("window", 1, [5, 3], 6, dict(local_window_size=2))):
        n = len(lasts)
        q, k, v = floats(n, rows, heads * size), floats(n, rows, groups * size), floats(n, rows, groups * size)
        past = [floats(n, groups, room, size) for _ in range(2)]
        turns = [np.cos(angles), np.sin(angles)] if more.get("do_rotary") else []
        case(f"group_query_buffer_{name}", "GroupQueryAttention",
             [q, k, v, *past, np.array(lasts, np.int32), np.array(total, np.int32), *turns], 3, known=(6,), **at, **more)
    cos, sin = np.cos(floats(9, 4)), np.sin(floats(9, 4))
    case("rotary_one_position", "RotaryEmbedding", [floats(2, 1, 16), np.array([2]), cos, sin])
    for name, x in (("zeros", np.zeros(3, np.float32)), ("positive", number([3, 3])), ("negative", number([-2, -2]))):
        case(f"dynamic_{name}", "DynamicQuantizeLinear", [x], 3, domain="")
    u = bytes_of(np.uint8, 3, 4)
    case("gemm_scale_alone", "QGemm",
         [u, number(0.5), number(3, np.uint8), bytes_of(np.uint8, 4, 2), number(0.25), number(2, np.uint8), None, number(2)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--only", help="an operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for family in (norms, activations, products, quantised, rotary, attention, regions, buffers, recurrent):
        family()
    written = 0
    with open(options.output, "wb") as out:
        for one in cases:
            if options.only and one[1] != options.only:
                continue
            try:
                data = pack(*one)
            except Exception as error:  # ONNX Runtime has many kinds of them
                print(f"{one[0]}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
                continue
            write_case(out, data)
            written += 1
    print(f"{written} cases in {options.output}")


if __name__ == "__main__":
    main()
