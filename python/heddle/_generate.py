"""Language models: decoders that keep what they have read."""

import os

from . import _heddle


class LanguageModel:
    """A decoder in ONNX with past and present keys and values, which are kept in arrays that each step updates.

        model = heddle.LanguageModel("gpt2.onnx")
        for token in model.generate([15496, 11, 995], tokens=32):
            ...

    path      the file; its inputs are input_ids and, where it has them, attention_mask and position_ids, its output is logits
    capacity  tokens of a sequence, the prompt among them
    chunk     the most tokens that one call of the network reads
    batch     sequences; they may differ in length where the model reads attention_mask and position_ids
    dtype     the type of weights, keys and values: f32, f16 or bf16
    limits    on a GPU: top_k and top_p are applied there, too, in nine more kernels a step, and not on the CPU
    target, plan, passes, options   as for Network; with allow_approximate=True products with weights of few bits may
              round their inputs to 8 bits (W8A8, W4A8) where the target has an instruction for it
    """

    def __init__(self, path, *, capacity=1024, chunk=64, batch=1, dtype="f32", limits=False, target=None, plan=None, passes="",
                 **options):
        model = _heddle.import_decoder(os.fspath(path), capacity, chunk, batch, dtype, target, limits)
        graph = _heddle.NetworkGraph(model.outputs, target, passes, options, model.updates)
        if plan is not None:
            graph = graph.with_plan(os.fspath(plan))
        self._decoder = _heddle.Decoder(model, graph)

    @property
    def capacity(self):
        """Tokens of a sequence."""
        return self._decoder.capacity

    @property
    def length(self):
        """Tokens that were read, of a batch those of the longest sequence."""
        return self._decoder.length

    def reset(self, sequence=None):
        """Forgets all tokens, or those of one sequence of a batch, in whose place another one can begin."""
        if sequence is None:
            self._decoder.reset()
        else:
            self._decoder.reset(sequence)

    def read(self, ids):
        """Reads tokens: a list, or a list for each sequence. Returns the logits behind the last: an array (batch, vocabulary)
        of numpy."""
        return self._decoder.step_each(self._lists(ids)).numpy()

    @staticmethod
    def _lists(ids):
        return [list(map(int, row)) for row in (ids if len(ids) > 0 and hasattr(ids[0], "__len__") else [ids])]

    def generate(self, prompt, *, tokens=None, temperature=0.0, top_k=0, top_p=1.0, seed=0, end_ids=()):
        """Forgets what was read, reads the prompt, and yields one token after another: numbers, or for a batch lists of them.

        tokens       how many; None: until the capacity is reached
        temperature  what logits are divided by; 0 takes the largest
        top_k        draws one of so many of the largest; 0: of all
        top_p        draws one of the fewest whose probabilities sum to this
        seed         a draw is a function of the seed and of the place of the token
        end_ids      tokens that end a sequence; of a batch, -1 stands for one that has ended
        """
        words = _heddle.Generation(
            self._decoder, self._lists(prompt), -1 if tokens is None else tokens, temperature, top_k, top_p, seed, list(end_ids))
        while ids := words.next():
            yield ids[0] if len(ids) == 1 else ids
