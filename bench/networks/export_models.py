#!/usr/bin/env python3
"""Writes networks as ONNX files, with random weights, by both of PyTorch's exporters.

    export_models.py FOLDER [--only resnet50,bert] [--exporter dynamo|torchscript] [--open]

The networks are those that Heddle is checked with: see networks() below. Needs requirements.txt.
"""
import argparse
import inspect
import pathlib
import sys
import traceback
import warnings

import torch
import torchvision.models as vision
from torch import nn


class ConvBlock(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU(),
                         nn.Conv2d(c_out, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al. 2015, with padding and transposed convolutions."""

    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        self.down = nn.ModuleList()
        c = 3
        for w in widths:
            self.down.append(ConvBlock(c, w))
            c = w
        self.up = nn.ModuleList()
        self.join = nn.ModuleList()
        for w in reversed(widths[:-1]):
            self.up.append(nn.ConvTranspose2d(c, w, 2, stride=2))
            self.join.append(ConvBlock(2 * w, w))
            c = w
        self.head = nn.Conv2d(c, 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            if i > 0:
                x = nn.functional.max_pool2d(x, 2)
            x = block(x)
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


class C2f(nn.Module):
    def __init__(self, c_in, c_out, n):
        super().__init__()
        h = c_out // 2
        self.first = ConvAct(c_in, c_out, 1)
        self.blocks = nn.ModuleList(nn.Sequential(ConvAct(h, h, 3), ConvAct(h, h, 3))
                                    for _ in range(n))
        self.last = ConvAct((2 + n) * h, c_out, 1)

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class ConvAct(nn.Sequential):
    def __init__(self, c_in, c_out, k, stride=1):
        super().__init__(nn.Conv2d(c_in, c_out, k, stride, k // 2, bias=False),
                         nn.BatchNorm2d(c_out), nn.SiLU())


class Detector(nn.Module):
    """Like YOLOv8 n: a C2f backbone, SPPF, a pyramid with nearest upsampling, three heads whose
    boxes are sums over a softmax; no non-maximum suppression."""

    def __init__(self, classes=80, bins=16):
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(ConvAct(3, 16, 3, 2), ConvAct(16, 32, 3, 2), C2f(32, 32, 1))
        self.p3 = nn.Sequential(ConvAct(32, 64, 3, 2), C2f(64, 64, 2))
        self.p4 = nn.Sequential(ConvAct(64, 128, 3, 2), C2f(128, 128, 2))
        self.p5 = nn.Sequential(ConvAct(128, 256, 3, 2), C2f(256, 256, 1))
        self.spp_in, self.spp_out = ConvAct(256, 128, 1), ConvAct(512, 256, 1)
        self.up4, self.up3 = C2f(384, 128, 1), C2f(192, 64, 1)
        self.heads = nn.ModuleList(nn.Sequential(ConvAct(c, 64, 3),
                                                 nn.Conv2d(64, 4 * bins + classes, 1))
                                   for c in (64, 128, 256))
        self.register_buffer("bin_values", torch.arange(bins, dtype=torch.float32))

    def forward(self, x):
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.spp_in(self.p5(p4))
        pools = [p5]
        for _ in range(3):
            pools.append(nn.functional.max_pool2d(pools[-1], 5, 1, 2))
        p5 = self.spp_out(torch.cat(pools, 1))
        p4 = self.up4(torch.cat([nn.functional.interpolate(p5, scale_factor=2.0), p4], 1))
        p3 = self.up3(torch.cat([nn.functional.interpolate(p4, scale_factor=2.0), p3], 1))
        rows = [h(p).flatten(2) for h, p in zip(self.heads, (p3, p4, p5))]
        y = torch.cat(rows, 2)
        boxes, scores = y.split((4 * self.bins, self.classes), 1)
        boxes = boxes.view(boxes.shape[0], 4, self.bins, -1).softmax(2)
        boxes = (boxes * self.bin_values.view(1, 1, -1, 1)).sum(2)
        return torch.cat([boxes, scores.sigmoid()], 1)


class LstmTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 96, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(192, 12)

    def forward(self, ids):
        return self.tags(self.lstm(self.words(ids))[0])


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width) + 0.1 * torch.randn(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    """RMS norm, rotary positions, heads of queries that share keys and values, an additive causal mask, SwiGLU."""

    def __init__(self, width=512, heads=8, kv_heads=2, inner=1408, length=128):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)

        def linear(rows, cols):
            return nn.Linear(rows, cols, bias=False)

        kv_width = kv_heads * self.size
        self.q, self.k, self.v = linear(width, width), linear(width, kv_width), linear(width, kv_width)
        self.out = linear(width, width)
        self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)
        frequencies = 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size)
        angles = torch.outer(torch.arange(length).float(), frequencies)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1))

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.size).transpose(1, 2)

    def rotated(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def attention(self, x):
        q, k = self.rotated(self.split(self.q(x), self.heads)), self.rotated(self.split(self.k(x), self.kv_heads))
        v = self.split(self.v(x), self.kv_heads)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        weights = (q @ k.transpose(-1, -2) / self.size ** 0.5 + self.mask).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class FirstOutput(nn.Module):
    """A model of transformers on tokens and their mask, whose answer is one tensor."""

    def __init__(self, model, pick):
        super().__init__()
        self.model, self.pick = model, pick

    def forward(self, ids, mask):
        return self.pick(self.model(input_ids=ids, attention_mask=mask, return_dict=True))


def image(size=224):
    return (torch.randn(1, 3, size, size),)


def words(length, vocabulary=1000):
    return torch.randint(0, vocabulary, (1, length))


def bert():
    from transformers import BertConfig, BertModel
    model = BertModel(BertConfig(), add_pooling_layer=True)
    return (FirstOutput(model, lambda r: r.last_hidden_state),
            (words(128), torch.ones(1, 128, dtype=torch.int64)))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(use_cache=False))
    return (FirstOutput(model, lambda r: r.logits),
            (words(128), torch.ones(1, 128, dtype=torch.int64)))


def of_vision(make, size=224, **options):
    return lambda: (make(weights=None, **options), image(size))


def networks():
    """Name -> a function that gives the module and its inputs."""
    return {
        "resnet18": of_vision(vision.resnet18),
        "resnet50": of_vision(vision.resnet50),
        "mobilenet_v2": of_vision(vision.mobilenet_v2),
        "mobilenet_v3": of_vision(vision.mobilenet_v3_large),
        "efficientnet_b0": of_vision(vision.efficientnet_b0),
        "squeezenet": of_vision(vision.squeezenet1_1),
        "densenet121": of_vision(vision.densenet121),
        "inception_v3": of_vision(vision.inception_v3, 299, init_weights=False),
        "vgg16": of_vision(vision.vgg16),
        "unet": lambda: (UNet(), image(256)),
        "detector": lambda: (Detector(), image(320)),
        "vit_b_16": of_vision(vision.vit_b_16),
        "bert": bert,
        "gpt2": gpt2,
        "convnext_tiny": of_vision(vision.convnext_tiny),
        "efficientnet_v2_s": of_vision(vision.efficientnet_v2_s),
        "regnet_y_400mf": of_vision(vision.regnet_y_400mf),
        "resnext50": of_vision(vision.resnext50_32x4d),
        "shufflenet_v2": of_vision(vision.shufflenet_v2_x1_0),
        "swin_t": of_vision(vision.swin_t),
        "llama": lambda: (nn.Sequential(*[LlamaBlock() for _ in range(4)]), (torch.randn(1, 128, 512),)),
        "lstm": lambda: (LstmTagger(), (words(32),)),
    }


def randomize(module):
    """Weights that are all 0 or all 1 at first would hide mistakes: statistics, the ViT's head."""
    for m in module.modules():
        if isinstance(m, nn.Linear) and not m.weight.any():
            nn.init.normal_(m.weight, std=0.05)
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_mean, -0.1, 0.1)
            nn.init.uniform_(m.running_var, 0.8, 1.2)
        if isinstance(scale := getattr(m, "layer_scale", None), nn.Parameter):  # ConvNeXt's 1e-6
            nn.init.uniform_(scale, 0.1, 1)


def batched(inputs, batch):
    """Tensors whose first dimension is the batch."""
    return tuple(torch.cat([x] * batch) if x.shape[0] == 1 else x for x in inputs)


def open_dims(inputs):
    """The dimensions of each input that --open leaves open: the batch of images and films, and the length of
    sequences. Inputs of different length, as those of an encoder and a decoder, have lengths of their own."""
    lengths, found = {}, []
    for x in inputs:
        if x.dim() >= 4:
            found.append({0: "batch"})
        elif x.dim() >= 2:
            axis = max(range(1, x.dim()), key=lambda d: x.shape[d])
            found.append({axis: lengths.setdefault(x.shape[axis], f"seq{len(lengths) or ''}")})
        else:
            found.append({})
    return found


def export(module, inputs, path, exporter, is_open, opset=None):
    """By default each exporter writes the opset that suits it best."""
    names = [f"input{i}" for i in range(len(inputs))]
    if exporter == "dynamo":
        shapes = [{d: torch.export.Dim(name, min=2, max=max(512, 2 * x.shape[d])) for d, name in dims.items()}
                  for x, dims in zip(inputs, open_dims(inputs))]
        if any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values()):
            shapes = [tuple(shapes)]  # of *inputs, which is one argument
        torch.onnx.export(module, inputs, path, input_names=names, output_names=["output"],
                          opset_version=opset, dynamo=True, external_data=False, verbose=False,
                          dynamic_shapes=shapes if is_open else None)
    else:
        axes = dict(zip(names, open_dims(inputs)))
        torch.onnx.export(module, inputs, path, input_names=names, output_names=["output"],
                          dynamo=False, opset_version=opset or 17, dynamic_axes=axes if is_open else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names with commas")
    parser.add_argument("--exporter", choices=("dynamo", "torchscript"), help="only this one")
    parser.add_argument("--open", action="store_true",
                        help="leave batch or length open, in files NAME.open.EXPORTER.onnx")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = options.only.split(",") if options.only else list(networks())
    failed = 0
    for name in chosen:
        torch.manual_seed(1)
        module, inputs = networks()[name]()
        randomize(module)
        module.eval()
        for exporter in [options.exporter] if options.exporter else ["dynamo", "torchscript"]:
            path = options.folder / f"{name}{'.open' if options.open else ''}.{exporter}.onnx"
            if path.exists():
                continue
            try:
                with torch.no_grad():
                    export(module, inputs, str(path), exporter, options.open)
                print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
            except Exception as error:  # the exporter's own troubles are no reason to stop
                failed += 1
                print(f"{path}: not exported: {type(error).__name__}: {error}"[:300], flush=True)
                traceback.print_exc(file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
