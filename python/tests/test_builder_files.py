"""Decoders as the builder of onnxruntime-genai writes them, beside ONNX Runtime."""

import numpy as np
import pytest

import heddle as hd

VOCABULARY, WIDTH, HEADS, GROUPS, SIZE, LAYERS, INNER, POSITIONS = 19, 32, 4, 2, 16, 2, 48, 64
MICROSOFT = "com.microsoft"


class Builder:
    """The nodes of the file. `rotary`: GroupQueryAttention rotates queries and keys itself; `sums`: the lengths are those of
    attention_mask, and not inputs."""

    def __init__(self, rotary, sums):
        from onnx import helper

        self.helper, self.rotary, self.sums = helper, rotary, sums
        self.random, self.nodes, self.constants = np.random.default_rng(3), [], []
        angles = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(0, SIZE, 2) / SIZE)
        self.constant("cos", np.cos(angles).astype(np.float32))
        self.constant("sin", np.sin(angles).astype(np.float32))
        if sums:
            self.constant("one", np.array(1))
            self.constant("second", np.array([1]))
            self.op("ReduceSum", ["attention_mask", "second"], ["sum"], keepdims=0)
            self.op("Sub", ["sum", "one"], ["lasts"])
            self.op("Cast", ["lasts"], ["seqlens_k"], to=6)
            self.op("Shape", ["attention_mask"], ["shape"])
            self.op("Gather", ["shape", "one"], ["total"], axis=0)
            self.op("Cast", ["total"], ["total_sequence_length"], to=6)

    def constant(self, name, value):
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def weights(self, name, *shape):
        return self.constant(name, (self.random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def op(self, kind, inputs, outputs, domain="", **attributes):
        self.nodes.append(self.helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def linear(self, x, name, depth, columns):
        return self.op("MatMul", [x, self.weights("w_" + name, depth, columns)], [name])

    def norm(self, x, skip, name):
        """The norm of x + skip, and that sum."""
        gains = self.constant("gains_" + name, 1 + self.random.random(WIDTH, np.float32) / 4)
        if skip is None:
            return self.op("SimplifiedLayerNormalization", [x, gains], [name], axis=-1, epsilon=1e-5), x
        outputs = [name, "", "", "sum_" + name]
        return self.op("SkipSimplifiedLayerNormalization", [x, skip, gains], outputs, MICROSOFT, epsilon=1e-5), outputs[3]

    def attention(self, h, l):
        q, k, v = (self.linear(h, f"{n}{l}", WIDTH, c * SIZE) for n, c in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)))
        if not self.rotary:
            q, k = (self.op("RotaryEmbedding", [t, "position_ids", "cos", "sin"], ["turned_" + t], MICROSOFT) for t in (q, k))
        past = [f"past_key_values.{l}.{n}" for n in ("key", "value")]
        inputs = [q, k, v, *past, "seqlens_k", "total_sequence_length"] + (["cos", "sin"] if self.rotary else [])
        return self.op("GroupQueryAttention", inputs, [f"attention{l}", f"present.{l}.key", f"present.{l}.value"], MICROSOFT,
                       num_heads=HEADS, kv_num_heads=GROUPS, scale=SIZE ** -0.5, local_window_size=-1, softcap=0.0,
                       do_rotary=int(self.rotary), rotary_interleaved=0)

    def write(self, path):
        import onnx

        x, skip = self.op("Gather", [self.weights("words", VOCABULARY, WIDTH), "input_ids"], ["x"], axis=0), None
        for l in range(LAYERS):
            h, x = self.norm(x, skip, f"before{l}")
            h, x = self.norm(x, self.linear(self.attention(h, l), f"o{l}", HEADS * SIZE, WIDTH), f"behind{l}")
            gate, up = (self.linear(h, f"{n}{l}", WIDTH, INNER) for n in ("gate", "up"))
            active = self.op("Mul", [gate, self.op("Sigmoid", [gate], [f"sigmoid{l}"])], [f"active{l}"])
            skip = self.linear(self.op("Mul", [active, up], [f"inner{l}"]), f"down{l}", INNER, WIDTH)
        self.linear(self.norm(x, skip, "last")[0], "logits", WIDTH, VOCABULARY)
        info = self.helper.make_tensor_value_info
        tokens, total = ["batch_size", "sequence_length"], "total_sequence_length"
        inputs = [info("input_ids", 7, tokens)]
        inputs += [info("attention_mask", 7, ["batch_size", total])] if self.sums else [info("seqlens_k", 6, ["batch_size"]),
                                                                                      info(total, 6, [])]
        inputs += [] if self.rotary else [info("position_ids", 7, tokens)]
        outputs = [info("logits", 1, [*tokens, VOCABULARY])]
        for l in range(LAYERS):
            for n in ("key", "value"):
                inputs.append(info(f"past_key_values.{l}.{n}", 1, ["batch_size", GROUPS, "past_sequence_length", SIZE]))
                outputs.append(info(f"present.{l}.{n}", 1, ["batch_size", GROUPS, total, SIZE]))
        graph = self.helper.make_graph(self.nodes, "decoder", inputs, outputs, self.constants)
        domains = [self.helper.make_opsetid("", 17), self.helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(self.helper.make_model(graph, ir_version=9, opset_imports=domains), path)


class Reference:
    """The logits behind each token of a whole sequence by ONNX Runtime."""

    def __init__(self, path):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def logits(self, ids):
        n, empty = len(ids), np.zeros((1, GROUPS, 0, SIZE), np.float32)
        given = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, n), np.int64), "position_ids": np.arange(n)[None],
                 "seqlens_k": np.array([n - 1], np.int32), "total_sequence_length": np.array(n, np.int32)}
        return self.session.run(["logits"], {i.name: given.get(i.name, empty) for i in self.session.get_inputs()})[0][0]


@pytest.fixture(scope="module", params=[(True, True), (True, False), (False, True)],
                ids=["rotates", "lengths are inputs", "positions are inputs"])
def decoder(request, tmp_path_factory):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("built") / "model.onnx"
    Builder(*request.param).write(path)
    return path, Reference(path)


def close(found, want):
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def test_any_split_gives_the_logits_of_the_whole(decoder):
    path, reference = decoder
    model = hd.LanguageModel(path, capacity=40, chunk=8)
    random = np.random.default_rng(1)
    for _ in range(6):
        ids = list(map(int, random.integers(0, VOCABULARY, random.integers(2, 40))))
        want, begin = reference.logits(ids), 0
        model.reset()
        while begin < len(ids):
            end = min(len(ids), begin + int(random.choice([1, 1, 3, 12])))
            found, begin = model.read(ids[begin:end])[0], end
            close(found, want[end - 1])


def test_tokens_are_those_of_the_whole_sequence(decoder):
    path, reference = decoder
    ids = [1, 2, 3]
    for token in hd.LanguageModel(path, capacity=24, chunk=4).generate(ids.copy(), tokens=12):
        assert token == int(reference.logits(ids)[-1].argmax())
        ids.append(token)


def test_sequences_have_lengths_of_their_own(decoder):
    path, reference = decoder
    model = hd.LanguageModel(path, capacity=24, chunk=4, batch=3)
    read = [[1, 2, 3, 4, 5, 6], [7], [8, 9]]
    model.read(read)
    for more in ([[3], [], [4, 5]], [[], [1, 2, 3, 4, 5, 6, 7], [6]], [[2], [3], [4]]):
        found = model.read(more)
        for b, ids in enumerate(more):
            read[b] = read[b] + ids
            close(found[b], reference.logits(read[b])[-1])
    model.reset(1)
    close(model.read([[], [5, 6], []])[1], reference.logits([5, 6])[-1])


def test_no_more_positions_than_the_file_has_angles_for(decoder, request):
    if "positions" in request.node.name:
        pytest.skip("the file takes positions as they are")
    with pytest.raises(hd.Error, match="64 positions, and 80"):
        hd.LanguageModel(decoder[0], capacity=80)
