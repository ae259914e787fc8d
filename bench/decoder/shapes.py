#!/usr/bin/env python3
"""Decoders of known shapes with random weights, beside what transformers computes with the same weights.

    shapes.py [--models llama-3.2-1b,qwen3-0.6b,gpt2-medium] [--layers 2] [--threads 1] [--tokens 12] [--export]

Each model has a few layers of its shape. Llama and Qwen3 are written as GGUF files, GPT-2 as an ONNX file with past and
present. A prompt is read in parts and token after token; printed are the largest difference of a logit from that of the
whole sequence by transformers, over the largest logit, the bytes of weights, and the median time of a token. --export
also makes the kernels for an H200, which needs NVRTC and no GPU. Needs torch, transformers, onnx and gguf.
"""
import argparse
import pathlib
import statistics
import tempfile
import time

import numpy as np
import torch
import transformers

import heddle as hd
import llama

SIZES = {
    "llama-3.2-1b": dict(hidden_size=2048, intermediate_size=8192, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                         vocab_size=128256, rope_theta=500000.0, tie_word_embeddings=True),
    "qwen3-0.6b": dict(hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                       vocab_size=151936, rope_theta=1e6, tie_word_embeddings=True),
    "gpt2-medium": dict(n_embd=1024, n_head=16, vocab_size=50257, n_positions=1024),
}
CAPACITY = 128


def model_of(name, layers):
    torch.manual_seed(1)
    sizes = SIZES[name]
    if name.startswith("gpt2"):
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=layers, **sizes)).eval()
    kind = "Llama" if name.startswith("llama") else "Qwen3"
    theta = sizes["rope_theta"]
    config = getattr(transformers, kind + "Config")(
        num_hidden_layers=layers, max_position_embeddings=4096, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": theta}, **{k: v for k, v in sizes.items() if k != "rope_theta"})
    return getattr(transformers, kind + "ForCausalLM")(config).eval()


def write_gguf(path, name, model):
    import gguf

    o, family = model.config, name.split("-")[0].rstrip(".") if name.startswith("llama") else "qwen3"
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(o.num_hidden_layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(o.hidden_size)
    writer.add_feed_forward_length(o.intermediate_size)
    writer.add_head_count(o.num_attention_heads)
    writer.add_head_count_kv(o.num_key_value_heads)
    writer.add_key_length(o.head_dim)
    writer.add_value_length(o.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(SIZES[name]["rope_theta"])
    writer.add_rope_dimension_count(o.head_dim)
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for key, value in model.state_dict().items():
        w, parts = value.numpy(), key.split(".")
        if key == "lm_head.weight":
            continue  # tied
        to = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}.get(key)
        if to is None:
            part = names[".".join(parts[3:-1])]
            to = f"blk.{parts[2]}.{part}.weight"
            if family == "llama" and part in ("attn_q", "attn_k"):
                w = llama.pairs_of(w, o.num_attention_heads if part == "attn_q" else o.num_key_value_heads)
        writer.add_tensor(to, np.ascontiguousarray(w))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_gpt2(path, model):
    from onnx import helper

    g, c, w = llama.Graph(), model.config, {k: v.numpy() for k, v in model.state_dict().items()}
    size, real = c.n_embd // c.n_head, lambda key: g.constant(w[key], np.float32, key)
    norm = lambda x, key: g.op("LayerNormalization", [x, real(key + ".weight"), real(key + ".bias")], axis=-1, epsilon=1e-5)
    linear = lambda x, key: g.op("Add", [g.op("MatMul", [x, real(key + ".weight")]), real(key + ".bias")])
    words = real("transformer.wte.weight")
    x = g.op("Add", [g.op("Gather", [words, "input_ids"]), g.op("Gather", [real("transformer.wpe.weight"), "position_ids"])])
    hidden = llama.mask(g)
    for l in range(c.n_layer):
        at = f"transformer.h.{l}."
        parts = [f"qkv.{l}.{n}" for n in "qkv"]
        g.nodes.append(helper.make_node("Split", [linear(norm(x, at + "ln_1"), at + "attn.c_attn")], parts, axis=-1, num_outputs=3))
        q, k, v = (g.op("Transpose", [g.op("Reshape", [p, g.constant([0, 0, c.n_head, size])])], perm=[0, 2, 1, 3]) for p in parts)
        for name, new in (("key", k), ("value", v)):
            g.op("Concat", [f"past.{l}.{name}", new], f"present.{l}.{name}", axis=2)
        scores = g.op("MatMul", [q, g.op("Transpose", [f"present.{l}.key"], perm=[0, 1, 3, 2])])
        scores = g.op("Add", [g.op("Mul", [scores, g.constant(size ** -0.5, np.float32)]), hidden_of(g, hidden)])
        y = g.op("MatMul", [g.op("Softmax", [scores], axis=-1), f"present.{l}.value"])
        y = g.op("Reshape", [g.op("Transpose", [y], perm=[0, 2, 1, 3]), g.constant([0, 0, c.n_embd])])
        x = g.op("Add", [x, linear(y, at + "attn.c_proj")])
        h = g.op("Gelu", [linear(norm(x, at + "ln_2"), at + "mlp.c_fc")], approximate="tanh")
        x = g.op("Add", [x, linear(h, at + "mlp.c_proj")])
    g.op("MatMul", [norm(x, "transformer.ln_f"), g.op("Transpose", [words], perm=[1, 0])], "logits")
    llama.save(g, path, "gpt2", vocabulary=c.vocab_size, layers=c.n_layer, heads=c.n_head, size=size, opsets={"": 20})


def hidden_of(g, hidden):
    """The mask for one dimension of heads, where llama.py has groups and heads of each."""
    return g.op("Squeeze", [hidden, g.constant([1])])


def run(name, o, folder):
    model = model_of(name, o.layers)
    path = str(folder / name) + (".onnx" if name.startswith("gpt2") else ".gguf")
    write_gpt2(path, model) if path.endswith("onnx") else write_gguf(path, name, model)
    rng = np.random.default_rng(3)
    ids = [int(i) for i in rng.integers(0, model.config.vocab_size, o.tokens + 11)]
    with torch.no_grad():
        want = model(torch.tensor([ids])).logits[0].numpy()
    del model
    target = f"llvm -mcpu=native -threads={o.threads}"
    decoder = hd.LanguageModel(path, capacity=CAPACITY, chunk=16, target=target, **({"block": 16} if o.blocks else {}))
    worst, times, at = 0.0, [], 0
    for n in [7, 4] + [1] * o.tokens:
        begin = time.process_time()
        logits = decoder.read(ids[at:at + n])[0]
        times.append(time.process_time() - begin)
        at += n
        worst = max(worst, float(np.abs(logits - want[at - 1]).max() / np.abs(want[at - 1]).max()))
    print(f"{name}: {o.layers} layers, {at} tokens, largest difference {worst:.1e}, {1e3 * statistics.median(times[3:]):.1f} ms a token",
          flush=True)
    assert worst < 1e-3
    if o.export:
        gpu = hd.Target("cuda -gpu=h200")
        made = hd._heddle.import_decoder(path, CAPACITY, 16, 1, "f32" if path.endswith("gguf") else "bf16", gpu, False, 0, 0, False)
        graph = hd._heddle.NetworkGraph(made.outputs, gpu, "", {}, made.updates)
        out = graph.export(list(made.inputs) + list(made.outputs), str(folder / "export"), "decoder",
                           list(made.input_names) + list(made.output_names))
        print(f"{name}: {out.steps} steps for an H200, a library of {out.library_bytes / 1e6:.1f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SIZES))
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--blocks", action="store_true", help="keys and values in blocks of 16 tokens")
    parser.add_argument("--export", action="store_true")
    o = parser.parse_args()
    for name in o.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            run(name, o, pathlib.Path(folder))


if __name__ == "__main__":
    main()
