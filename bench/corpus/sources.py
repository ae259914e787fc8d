"""The networks of the corpus: what each library has, and a module with its inputs for each name.

Names are LIBRARY/NAME. A family is what a library keeps in one file of its own; the corpus has the
smallest member of each. Models of transformers are made from the configuration that their class
has by default, with two layers, and narrow where they would have more than LARGEST parameters.

drawn(count) names others, which no list has: any model of torchvision and timm, with images as small as
it takes, and configurations of transformers with numbers that are drawn (transformers/NAME~SEED).
"""
import hashlib
import inspect
import itertools
import random

import torch
from torch import nn

import audio
import export_models

LARGEST = 30_000_000
LENGTH = 32


class Tensors(nn.Module):
    """A module called with named inputs, whose answer is the tensors among its outputs."""

    def __init__(self, module, names=None):
        super().__init__()
        self.module, self.names = module, names

    def forward(self, *inputs):
        if self.names is None:
            outputs = self.module(*inputs)
        else:
            outputs = self.module(**dict(zip(self.names, inputs)))
        found = torch.utils._pytree.tree_leaves(outputs)
        return tuple(x for x in found if torch.is_tensor(x))


SIDES = (64, 96, 128, 160, 192, 224, 256, 299, 384)  # of small images; the first that a model takes


def size_of(module):
    return sum(p.numel() for p in module.parameters())


def smallest(members):
    """Of (family, parameters, name): the name of the smallest member of each family."""
    ordered = sorted(members)
    return [next(group)[2] for _, group in itertools.groupby(ordered, lambda m: m[0])]


def by_hash(names):
    return sorted(names, key=lambda n: hashlib.sha1(n.encode()).hexdigest())


def works(module, inputs):
    try:
        with torch.no_grad():
            module(*inputs)
        return True
    except Exception:  # an image that is too small, or of a size that the weights do not have
        return False


class Plain:
    """Modules that are written here."""

    @staticmethod
    def makers():
        ours = {n: f for n, f in export_models.networks().items()
                if n in ("unet", "detector", "llama", "lstm")}
        return {**ours, **audio.networks()}

    @classmethod
    def names(cls):
        return sorted(cls.makers())

    @classmethod
    def make(cls, name):
        module, inputs = cls.makers()[name]()
        return Tensors(module), inputs


class Torchvision:
    @staticmethod
    def names():
        from torchvision import models
        members = []
        for name in models.list_models():
            builder = models.get_model_builder(name)
            if "quantization" in builder.__module__:  # has no weights of floats to export
                continue
            weights = next(iter(models.get_model_weights(name)))
            members.append((builder.__module__, weights.meta["num_params"], name))
        return smallest(members)

    @staticmethod
    def drawn():
        from torchvision import models
        return [n for n in models.list_models() if "quantization" not in models.get_model_builder(n).__module__]

    @staticmethod
    def fits(name):
        from torchvision import models
        return next(iter(models.get_model_weights(name))).meta["num_params"] <= LARGEST

    @classmethod
    def make_small(cls, name):
        module, inputs = cls.make(name)
        for side in SIDES:
            small = (torch.rand(*inputs[0].shape[:-2], side, side),) * len(inputs)
            if works(module.eval(), small):
                return module, small
        return module, inputs

    @staticmethod
    def make(name):
        from torchvision import models
        options = {"weights": None}
        builder = models.get_model_builder(name)
        parameters = inspect.signature(builder).parameters
        if "weights_backbone" in parameters:
            options["weights_backbone"] = None
        if "init_weights" in inspect.getsource(builder):
            options["init_weights"] = False
        module = builder(**options)
        if "video" in builder.__module__:
            size = (1, 3, 16, 224, 224) if "mvit" in name else (1, 3, 16, 224, 224) if "s3d" in name else (1, 3, 8, 112, 112)
            return Tensors(module), (torch.randn(*size),)
        if "optical_flow" in builder.__module__:
            return Tensors(module), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
        if "detection" in builder.__module__:
            return Tensors(module), (torch.rand(1, 3, 320, 320),)
        return Tensors(module), (torch.randn(1, 3, *(299, 299) if "inception" in name else (224, 224)),)


class Timm:
    @staticmethod
    def names():
        import timm
        members = []
        for family in timm.list_modules():
            for name in timm.list_models(module=family):
                try:
                    with torch.device("meta"):
                        members.append((family, size_of(timm.create_model(name)), name))
                except Exception:  # some cannot be made without numbers: others of their family can
                    continue
        return smallest(members)

    @staticmethod
    def drawn():
        import timm
        return timm.list_models()

    @staticmethod
    def fits(name):
        import timm
        with torch.device("meta"):
            return size_of(timm.create_model(name)) <= LARGEST

    @classmethod
    def make_small(cls, name):
        import timm
        for side in SIDES:
            image = (torch.randn(1, 3, side, side),)
            for options in ({"img_size": side}, {}):
                try:
                    module = timm.create_model(name, pretrained=False, exportable=True, **options)
                except (TypeError, AssertionError, ValueError):
                    continue
                if works(module.eval(), image):
                    return Tensors(module), image
        return cls.make(name)

    @staticmethod
    def make(name):
        import timm
        module = timm.create_model(name, pretrained=False, exportable=True)
        return Tensors(module), (torch.randn(1, *module.default_cfg["input_size"]),)


# What a narrow configuration has, where it has such a field; longer lists are cut to the number of layers.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
          "num_encoder_layers", "num_decoder_layers", "depth")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
NARROW = {"hidden_size": 256, "d_model": 256, "n_embd": 256, "dim": 256, "intermediate_size": 512,
          "moe_intermediate_size": 256, "encoder_ffn_dim": 512, "decoder_ffn_dim": 512, "d_ff": 512,
          "num_attention_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
          "n_head": 4, "num_heads": 4, "num_key_value_heads": 2, "head_dim": 64}


def shorten(config, narrow, layers=2, words=1000):
    """Two layers, a thousand words, eight experts; and the numbers of `narrow` at most."""
    depths = {getattr(config, key) for key in LAYERS if isinstance(getattr(config, key, None), int)}
    limits = {**dict.fromkeys(LAYERS, layers), **dict.fromkeys(EXPERTS, 8), "vocab_size": words, **narrow}
    for key, value in list(vars(config).items()):
        if isinstance(value, type(config).__mro__[-2]) or hasattr(value, "to_dict"):
            shorten(value, narrow, layers, words)
        elif isinstance(value, list) and len(value) in depths and len(value) > layers:
            setattr(config, key, value[:layers])
        elif key.endswith("_token_id") and isinstance(value, int) and value >= words:
            setattr(config, key, 1)
    for key, limit in limits.items():
        value = getattr(config, key, None)
        if isinstance(value, int) and value > limit:
            setattr(config, key, limit)
    config._experts_implementation = "batched_mm"  # sums over experts that both exporters know
    for key in ("use_cache", "use_kernels"):
        if hasattr(config, key):
            setattr(config, key, False)


def side(config):
    value = getattr(config, "image_size", None) or 224
    for _ in range(2):
        if isinstance(value, dict):
            value = value.get("height", 224)
        if isinstance(value, (list, tuple)):
            value = value[0]
    return value


def guesses(config, parameters, length):
    """Inputs that a model of transformers may want, the likeliest last of each kind."""
    vocabulary = min(getattr(config.get_text_config(), "vocab_size", None) or 257, 1000)
    vision = getattr(config, "vision_config", config)
    ids = {"input_ids": torch.randint(2, vocabulary, (1, length)),
           "attention_mask": torch.ones(1, length, dtype=torch.int64)}
    pixels = {"pixel_values": torch.randn(1, getattr(vision, "num_channels", 3) or 3,
                                          side(vision), side(vision))}
    decoder = {"decoder_input_ids": torch.randint(2, vocabulary, (1, (length + 1) // 2))}
    mel = getattr(config, "num_mel_bins", None) or 80
    times = 2 * (getattr(config, "max_source_positions", None) or 100)
    for guess in (ids, {**ids, **decoder}, pixels, {**ids, **pixels}, {**pixels, **decoder},
                  {"input_values": torch.randn(1, 8000)}, {"input_values": torch.randn(1, 1, 8000)},
                  {"input_features": torch.randn(1, mel, times)},
                  {"input_features": torch.randn(1, mel, times), **decoder},
                  {"input_features": torch.randn(1, times, mel)},
                  {"input_values": torch.randn(1, 1024, 128)},
                  {"input_values": torch.randn(1, 8000), **decoder}):
        if all(key in parameters for key in guess):
            yield guess


class Transformers:
    @staticmethod
    def names():
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
        return [n for n in MODEL_MAPPING_NAMES if not n.startswith("timm")]

    @staticmethod
    def config(name):
        from transformers import AutoConfig, AutoModel
        for narrow in (False, True):
            config = AutoConfig.for_model(name)
            shorten(config, NARROW if narrow else {})
            with torch.device("meta"):
                size = size_of(AutoModel.from_config(config))
            if size <= LARGEST:
                return config
        raise ValueError(f"has {size} parameters when narrow")

    @classmethod
    def drawn(cls):
        return [f"{name}~{seed}" for name in cls.names() for seed in range(1, 4)]

    @staticmethod
    def fits(_):
        return True

    @classmethod
    def make_small(cls, name):
        """With one to three layers, and widths, heads and words that are drawn."""
        from transformers import AutoConfig
        own, seed = name.split("~")
        rng = random.Random(f"{own} {seed}")
        heads, head = rng.choice((2, 3, 4, 6)), rng.choice((8, 16, 24, 40))
        narrow = {**NARROW, **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim"), heads * head),
                  **dict.fromkeys((k for k in NARROW if "heads" in k or k == "n_head"), heads),
                  **dict.fromkeys((k for k in NARROW if "intermediate" in k or "ff" in k), rng.choice((72, 96, 160))),
                  "head_dim": head, "num_key_value_heads": heads // 2 if heads % 2 == 0 else heads}
        config = AutoConfig.for_model(own)
        shorten(config, narrow, layers=rng.randint(1, 3), words=rng.choice((257, 500, 999)))
        return cls.of_config(config, length=rng.choice((7, 16, 29, 48)))

    @classmethod
    def make(cls, name):
        return cls.of_config(cls.config(name))

    @classmethod
    def of_config(cls, config, length=LENGTH):
        from transformers import AutoModel
        module = AutoModel.from_config(config, attn_implementation="eager").float().eval()
        parameters = inspect.signature(module.forward).parameters
        error = ValueError("has no inputs that are known")
        for guess in guesses(config, parameters, length):
            try:
                with torch.no_grad():
                    module(**guess)
                return Tensors(module, list(guess)), tuple(guess.values())
            except Exception as e:  # the next guess may be what it wants
                error = e
        raise error


LIBRARIES = {"plain": Plain, "torchvision": Torchvision, "timm": Timm, "transformers": Transformers}


def drawn(count, wanted):
    """So many names that are `wanted`, as many of each library: those with at most LARGEST parameters whose hashes come first. One by
    one, because sizes take a while."""
    def of(library):
        source = LIBRARIES[library]
        names = (f"{library}/{n}" for n in by_hash(source.drawn()))
        return (n for n in names if wanted(n) and source.fits(n.split("/", 1)[1]))

    libraries = ("timm", "torchvision", "transformers")
    in_turns = itertools.chain.from_iterable(itertools.zip_longest(*map(of, libraries)))
    return itertools.islice((n for n in in_turns if n), count)


def make(name, small=False):
    """The module of a name, in inference mode, and its inputs at batch 1: `small` ones, where it is not of the list."""
    library, own = name.split("/", 1)
    torch.manual_seed(1)
    torch.backends.mha.set_fastpath_enabled(False)  # one operator that no exporter knows
    source = LIBRARIES[library]
    module, inputs = source.make_small(own) if small else source.make(own)
    export_models.randomize(module)
    return module.eval(), inputs
