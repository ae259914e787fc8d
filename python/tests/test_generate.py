"""Networks that update their inputs, and language models."""

import numpy as np
import pytest

import heddle as hd

TOKENS, WIDTH, HEADS, DEPTH = 11, 16, 2, 8


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """The path of a decoder of one layer of attention, and its weights."""
    return make_decoder(tmp_path_factory, masked=False)


@pytest.fixture(scope="module")
def masked_decoder(tmp_path_factory):
    """The same, of which attention_mask hides keys."""
    return make_decoder(tmp_path_factory, masked=True)


def make_decoder(tmp_path_factory, masked):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(4)
    shapes = {"wte": (TOKENS, WIDTH), "wpe": (32, WIDTH), "wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH), "wv": (WIDTH, WIDTH),
              "out": (WIDTH, TOKENS)}
    weights = {name: rng.standard_normal(shape, np.float32) / 2 for name, shape in shapes.items()}
    values = {"split": np.array([0, 0, HEADS, DEPTH]), "joined": np.array([0, 0, WIDTH]), "zero": np.array(0), "one": np.array(1),
              "lines_at": np.array([1, 3]), "mask_at": np.array([1, 2]), "rows_at": np.array([1]), "two": np.array(2), "minus": np.array(-1e9, np.float32), **weights}
    node = helper.make_node
    nodes = [node("Gather", ["wte", "input_ids"], ["words"]), node("Gather", ["wpe", "position_ids"], ["places"]),
             node("Add", ["words", "places"], ["h"])]
    for name in "qkv":
        nodes += [node("MatMul", ["h", "w" + name], [name + "0"]), node("Reshape", [name + "0", "split"], [name + "1"]),
                  node("Transpose", [name + "1"], [name], perm=[0, 2, 1, 3])]
    nodes += [node("Concat", ["past.key", "k"], ["present.key"], axis=2), node("Concat", ["past.value", "v"], ["present.value"], axis=2),
              node("Transpose", ["present.key"], ["turned"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "turned"], ["scores"]),
              node("Shape", ["attention_mask"], ["shape"]), node("Gather", ["shape", "one"], ["length"]),
              node("Range", ["zero", "length", "one"], ["columns"])]
    if masked:
        nodes += [node("Shape", ["past.key"], ["past_shape"]), node("Gather", ["past_shape", "two"], ["past_rows"]),
                  node("Range", ["past_rows", "length", "one"], ["own"]), node("Unsqueeze", ["own", "rows_at"], ["lines"]),
                  node("LessOrEqual", ["columns", "lines"], ["before"]), node("Cast", ["attention_mask"], ["shown"], to=TensorProto.BOOL),
                  node("Unsqueeze", ["shown", "mask_at"], ["shown_keys"]), node("And", ["before", "shown_keys"], ["seen"])]
    else:
        nodes += [node("Unsqueeze", ["position_ids", "lines_at"], ["lines"]), node("LessOrEqual", ["columns", "lines"], ["seen"])]
    nodes += [node("Where", ["seen", "scores", "minus"], ["masked"]),
              node("Softmax", ["masked"], ["shares"], axis=-1), node("MatMul", ["shares", "present.value"], ["mixed"]),
              node("Transpose", ["mixed"], ["rows"], perm=[0, 2, 1, 3]), node("Reshape", ["rows", "joined"], ["flat"]),
              node("Add", ["h", "flat"], ["y"]), node("MatMul", ["y", "out"], ["logits"])]
    info, of_int, of_float = helper.make_tensor_value_info, TensorProto.INT64, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "decoder",
        [info("input_ids", of_int, ["batch", "seq"]), info("attention_mask", of_int, ["batch", "total"]),
         info("position_ids", of_int, ["batch", "seq"])] +
        [info(f"past.{n}", of_float, ["batch", HEADS, "past", DEPTH]) for n in ("key", "value")],
        [info("logits", of_float, ["batch", "seq", TOKENS])] +
        [info(f"present.{n}", of_float, ["batch", HEADS, "total", DEPTH]) for n in ("key", "value")],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()])
    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path, weights


def logits_of(weights, ids):
    """Of the whole sequence, in f64: (tokens, vocabulary)."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    n = len(ids)
    h = w["wte"][ids] + w["wpe"][:n]
    q, k, v = ((h @ w["w" + name]).reshape(n, HEADS, DEPTH).transpose(1, 0, 2) for name in "qkv")
    scores = np.where(np.tri(n, dtype=bool), q @ k.transpose(0, 2, 1), -1e9)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return (h + (shares @ v).transpose(1, 0, 2).reshape(n, WIDTH)) @ w["out"]


def test_tokens_are_those_of_the_whole_sequence(decoder):
    path, weights = decoder
    model = hd.LanguageModel(path, capacity=24, chunk=4)
    prompt = [1, 2, 3, 4, 5, 6]
    found = list(model.generate(prompt, tokens=10))
    ids = list(prompt)
    for token in found:
        assert token == int(logits_of(weights, ids)[-1].argmax())
        ids.append(token)
    assert model.length == 15
    assert found == list(model.generate(prompt, tokens=10))
    np.testing.assert_allclose(model.read([7, 8])[0], logits_of(weights, ids[:-1] + [7, 8])[-1], rtol=1e-3, atol=1e-3)
    assert len(list(model.generate(prompt))) == 24 - 6 + 1


def test_draws_depend_on_the_seed(decoder):
    model = hd.LanguageModel(decoder[0], capacity=24, chunk=4, batch=2)
    draws = [list(model.generate([[1, 2], [1, 2]], tokens=12, temperature=3.0, seed=seed)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] and draws[0] != draws[2]
    assert any(a != b for a, b in draws[0])


def test_sequences_end_at_tokens(masked_decoder):
    model = hd.LanguageModel(masked_decoder[0], capacity=16, chunk=4, batch=2)
    prompts = [[1, 2, 3], [6]]
    whole = list(model.generate(prompts, tokens=8))
    end = whole[2][0]
    want = [[row[b] for row in whole] for b in range(2)]
    want = [tokens[:tokens.index(end) + 1] if end in tokens else tokens for tokens in want]
    found = list(model.generate(prompts, tokens=8, end_ids=[end]))
    assert [[row[b] for row in found if row[b] >= 0] for b in range(2)] == want
    assert len(want[0]) <= 3


def test_sequences_of_a_batch_have_lengths_of_their_own(masked_decoder):
    path, weights = masked_decoder
    model = hd.LanguageModel(path, capacity=16, chunk=4, batch=3)
    prompts = [[1, 2, 3, 4, 5], [6], [7, 8]]
    drawn = list(model.generate(prompts, tokens=6))
    assert model.length == 10
    for b, prompt in enumerate(prompts):
        ids = list(prompt)
        for tokens in drawn:
            assert tokens[b] == int(logits_of(weights, ids)[-1].argmax())
            ids.append(tokens[b])
    model.reset(1)
    np.testing.assert_allclose(model.read([[], [5, 6], []])[1], logits_of(weights, [5, 6])[-1], rtol=1e-3, atol=1e-3)
    assert model.length == 10


def test_sequences_share_blocks(masked_decoder):
    path, weights = masked_decoder
    model = hd.LanguageModel(path, capacity=16, chunk=4, batch=3, block=4, blocks=7)
    prompts = [[1, 2, 3, 4, 5], [6], [7, 8]]
    own = list(hd.LanguageModel(path, capacity=16, chunk=4, batch=3).generate(prompts, tokens=6))
    assert list(model.generate(prompts, tokens=6)) == own
    assert [len(model.blocks_of(b)) for b in range(3)] == [3, 2, 2] and model.free_blocks == 0
    with pytest.raises(hd.Error, match="need 1 blocks more, and 0 of 7 are free"):
        model.read([[], [1, 2, 3], []])
    model.reset(0)
    model.forget(2, sequence=2)
    np.testing.assert_allclose(model.read([[5, 6], [], []])[0], logits_of(weights, [5, 6])[-1], rtol=1e-3, atol=1e-3)
    assert model.free_blocks == 2


def test_drafts_are_read_in_one_call(decoder, masked_decoder):
    model = hd.LanguageModel(decoder[0], capacity=24, chunk=8, drafts=True)
    for sampling in ({}, {"temperature": 2.0, "seed": 3}):
        plain = list(model.generate([1, 2, 3], tokens=12, **sampling))

        def guess(ids):
            wrong = len(ids) % 3
            right = ([1, 2, 3] + plain)[len(ids):len(ids) + 5]
            return [*right[:wrong], *((t + 1) % TOKENS for t in right[wrong:])]

        assert list(model.generate([1, 2, 3], tokens=12, draft=guess, **sampling)) == plain
    even = np.full((3, TOKENS), 1 / TOKENS)
    drawn = list(model.generate([1, 2, 3], tokens=12, temperature=1.0, draft=lambda ids: ([1, 2, 3], even)))
    assert len(drawn) == 12 and model.length == 14
    batch = hd.LanguageModel(masked_decoder[0], capacity=24, chunk=8, batch=2, drafts=True)
    prompts = [[1, 2, 3], [6]]
    plain = list(batch.generate(prompts, tokens=9))
    found = [[], []]
    for turn in batch.generate(prompts, tokens=9, draft=lambda ids: [ids[-1], 4]):
        for row, ids in zip(found, turn):
            row += ids
    assert found == [[row[b] for row in plain] for b in range(2)]
    plain = list(model.generate([1, 2, 3], tokens=12))
    for guess in ((5, 7, 9), (5, 7), (), (np.int64(5), np.int64(7)), np.array([5, 7]), ((5, 7), ())):
        assert list(model.generate([1, 2, 3], tokens=12, draft=lambda ids: guess)) == plain
    with pytest.raises(hd.Error, match="probabilities of a draft sum to"):
        list(model.generate([1], tokens=4, temperature=1.0, draft=lambda ids: ([1], even[:1] * 2)))
    without = hd.LanguageModel(decoder[0], capacity=24, chunk=8)
    without.read([1, 2])
    with pytest.raises(hd.Error, match="the last token of a call alone") as error:
        list(without.generate([1], tokens=4, draft=lambda ids: []))
    assert "drafts=True" in str(error.value) and without.length == 2  # the prompt is not read


def test_blocks_that_no_table_can_name(masked_decoder):
    for block, blocks in ((2**63 - 1, None), (17, None), (4, 2**31), (4, 2**63 - 1), (2**63 - 1, 2**63 - 1)):
        with pytest.raises(hd.Error, match="larger than a sequence of 16|more than a table can name"):
            hd.LanguageModel(masked_decoder[0], capacity=16, chunk=4, batch=2, block=block, blocks=blocks)


def test_mistakes_of_language_models(decoder):
    model = hd.LanguageModel(decoder[0], capacity=8, chunk=2)
    with pytest.raises(hd.Error, match="more than the capacity"):
        model.read(list(range(9)))
    with pytest.raises(hd.Error, match="vocabulary"):
        model.read([TOKENS])
    with pytest.raises(hd.Error, match="2 lists of tokens are given for a batch of 1"):
        model.read([[1], [2]])
    with pytest.raises(hd.Error, match="no mask to hide"):
        hd.LanguageModel(decoder[0], capacity=8, chunk=2, batch=2).read([[1], [2, 3]])
    with pytest.raises(hd.Error, match="top_p"):
        list(model.generate([1], tokens=2, temperature=1.0, top_p=2.0))


def test_states_are_arrays_of_the_caller(decoder):
    path, weights = decoder
    net = hd.load(path, dims={"batch": 1, "seq": (1, 4), "past": (1, 16), "total": "past+seq"}, states=True)
    ids = [3, 1, 4, 1, 5]
    states = {f"past.{n}": np.zeros((20, 1, HEADS, DEPTH), np.float32) for n in ("key", "value")}

    def call(begin, tokens):
        end = begin + len(tokens)
        # Nothing reads the mask, so that the length is an input of its own.
        given = {"input_ids": np.array([tokens]), "position_ids": np.arange(begin, end)[None], "total": np.zeros(end, np.uint8), **states}
        return net(**{name: given[name] for name in net.input_names})

    for begin, end in ((0, 3), (3, 4), (4, 5)):
        logits = call(begin, ids[begin:end])
    np.testing.assert_allclose(logits[0, -1], logits_of(weights, ids)[-1], rtol=1e-3, atol=1e-3)
    assert all(s[:5].any() and not s[5:].any() for s in states.values())
    with pytest.raises(Exception, match="for 1 to 20"):
        call(19, [1, 2])
    states["past.key"].flags.writeable = False
    with pytest.raises(Exception, match="writ|read-only"):
        call(5, [1])


def test_rows_go_to_places_that_are_data():
    state, rows, places = (hd.placeholder((5, 2, 3), name="state"), hd.placeholder((4, 3), name="rows"),
                           hd.placeholder((4,), hd.i32, name="places"))
    step = hd.Network([], [state, rows, places], updates={state: hd.update(state, rows, places)})
    rng = np.random.default_rng(3)
    memory, given = rng.random((5, 2, 3), np.float32), rng.random((4, 3), np.float32)
    want = memory.copy()
    want[1, 1], want[4, 0] = given[2], given[1]  # the last of two rows; -1 is no row
    step(memory, given, np.array([3, 8, 3, -1], np.int32))
    np.testing.assert_array_equal(memory, want)
    with pytest.raises(hd.Error, match="give integers"):
        hd.update(state, rows, hd.placeholder((4,), name="real"))


def test_a_step_updates_weights_in_place():
    w, g = hd.placeholder((4, 8), name="w"), hd.placeholder((4, 8), name="g")
    step = hd.Network([], [w, g], updates={w: hd.compute((4, 8), lambda i, j: w[i, j] - g[i, j] * 0.5)})
    weights, gradient = np.ones((4, 8), np.float32), np.full((4, 8), 2, np.float32)
    for n in range(3):
        step(weights, gradient)
        np.testing.assert_array_equal(weights, np.full((4, 8), -n, np.float32))
