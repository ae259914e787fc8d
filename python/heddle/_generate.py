"""Language models: decoders that keep what they have read."""

import os

from . import _heddle
from ._errors import Error


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
    block     rows of a block: sequences share memory in blocks, which each takes as it grows; None: a part for each
    blocks    their number; None: as many as all sequences need at `capacity` tokens
    drafts    whether generate(draft=...) may be used: the network has the logits behind each token of a call
    limits    on a GPU: top_k and top_p are applied there, too, in nine more kernels a step, and not on the CPU
    target, plan, passes, options   as for Network; with allow_approximate=True products with weights of few bits may
              round their inputs to 8 bits (W8A8, W4A8) where the target has an instruction for it
    """

    def __init__(self, path, *, capacity=1024, chunk=64, batch=1, dtype="f32", block=None, blocks=None, drafts=False, limits=False,
                 target=None, plan=None, passes="", **options):
        model = _heddle.import_decoder(
            os.fspath(path), capacity, chunk, batch, dtype, target, limits, block or 0, blocks or 0, drafts)
        graph = _heddle.NetworkGraph(model.outputs, target, passes, options, model.updates)
        if plan is not None:
            graph = graph.with_plan(os.fspath(plan))
        self._decoder = _heddle.Decoder(model, graph)
        self._drafts = drafts

    @property
    def capacity(self):
        """Tokens of a sequence."""
        return self._decoder.capacity

    @property
    def length(self):
        """Tokens that were read, of a batch those of the longest sequence."""
        return self._decoder.length

    @property
    def free_blocks(self):
        """With `block`: the blocks that no sequence has."""
        return self._decoder.free_blocks

    def blocks_of(self, sequence=0):
        """With `block`: the blocks of a sequence in the order of its rows."""
        return self._decoder.blocks_of(sequence)

    def forget(self, tokens, sequence=0):
        """Takes back the last tokens that a sequence has read."""
        self._decoder.forget(sequence, tokens)

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

    def generate(self, prompt, *, tokens=None, temperature=0.0, top_k=0, top_p=1.0, seed=0, end_ids=(), draft=None):
        """Forgets what was read, reads the prompt, and yields one token after another: numbers, or for a batch lists of them.

        tokens       how many; None: until the capacity is reached
        temperature  what logits are divided by; 0 takes the largest
        top_k        draws one of so many of the largest; 0: of all
        top_p        draws one of the fewest whose probabilities sum to this
        seed         a draw is a function of the seed and of the place of the token
        end_ids      tokens that end a sequence; of a batch, -1 stands for one that has ended
        draft        a function of the tokens of a sequence, its prompt among them, that guesses some that come next, up to
                     eight or so: a list, or a list and the probabilities (n, vocabulary) of which each was drawn. One call reads
                     all of them, and those that are right are yielded, with one more: the tokens that come without a draft, or with
                     probabilities tokens that are as likely. Of a batch, each turn yields a list for each sequence then
        """
        if draft is not None and not self._drafts:
            raise Error("the model has the logits behind the last token of a call alone, so it takes no drafts",
                        help="make it with LanguageModel(..., drafts=True)")
        words = _heddle.Generation(
            self._decoder, self._lists(prompt), -1 if tokens is None else tokens, temperature, top_k, top_p, seed, list(end_ids))
        if draft is None:
            while ids := words.next():
                yield ids[0] if len(ids) == 1 else ids
            return
        said, ended = [list(row) for row in self._lists(prompt)], set()
        while True:
            drafts = [_draft_of(draft, row) if i not in ended else ([], []) for i, row in enumerate(said)]
            next_ids = words.next_of_drafts([d[0] for d in drafts], [d[1] for d in drafts])
            if not next_ids:
                return
            for i, ids in enumerate(next_ids):
                said[i] += ids
                if not ids:
                    ended.add(i)
            if len(said) == 1:
                yield from next_ids[0]
            else:
                yield next_ids


def _draft_of(draft, tokens):
    """The tokens that a function guesses, and their probabilities."""
    made = draft(list(tokens))
    # A tuple may be the tokens themselves.
    both = isinstance(made, tuple) and len(made) == 2 and hasattr(made[1], "__iter__") and getattr(made[1], "ndim", 1) > 0
    ids, shares = made if both else (made, [])
    return list(map(int, ids)), [list(map(float, row)) for row in shares]
