// The toy decoder (onnx/toy_decoder.h) over whole sequences, and random splits of sequences that must give the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "heddle/generate/decoder.h"
#include "heddle/support/rng.h"
#include "network/network_testing.h"
#include "onnx/toy_decoder.h"

namespace heddle::testing {

/// The model over whole sequences of `n` tokens: logits (batch, n, tokens).
inline Tensor whole_model(const Tensor& ids, const std::vector<Tensor>& w) {
  const int64_t batch = ids.extent(0), n = ids.extent(1);
  const Tensor h = compute({batch, n, kWidth}, [&](Axis b, Axis i, Axis c) {
    return w[0](max(Expr(0), min(Expr(kTokens - 1), ids(b, i))), c) + w[1](i, c);
  });
  const auto heads = [&](const Tensor& weight) {
    return ops::transpose(ops::reshape(ops::matmul(h, weight), {batch, n, kHeads, kDepth}),
                          {0, 2, 1, 3});
  };
  const Tensor scores = ops::matmul(heads(w[2]), heads(w[3]), false, true);
  const Tensor masked = compute({batch, kHeads, n, n}, [&](Axis b, Axis g, Axis i, Axis j) {
    return select(Expr(j) <= Expr(i), scores(b, g, i, j) * 0.35355338f, make_const(f32, -1e9));
  });
  const Tensor mixed = ops::matmul(ops::softmax(masked), heads(w[4]));
  const Tensor joined =
      ops::reshape(ops::transpose(mixed, {0, 2, 1, 3}), {batch, n, kHeads * kDepth});
  const Tensor x = ops::add(h, ops::matmul(joined, w[5]));
  const Tensor y = ops::add(x, ops::matmul(ops::relu(ops::matmul(x, w[6])), w[7]));
  return ops::matmul(y, w[8]);
}

inline OnnxModel import_it(const std::string& path, const DecoderSizes& sizes) {
  return import_onnx(path, decoder_options(path, sizes));
}
inline Decoder decoder_of(const OnnxModel& model) {
  return Decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
}

/// The logits of the whole sequences by the interpreter: (batch, n, tokens).
inline NDArray whole(const std::vector<NDArray>& weights, const NDArray& ids) {
  const Tensor in = placeholder(ids.shape(), i64, "ids");
  std::vector<TensorValue> values{{in, ids}};
  std::vector<Tensor> w;
  for (size_t i = 0; i < weights.size(); ++i) {
    w.push_back(placeholder(weights[i].shape(), f32, weights_of_model()[i].name));
    values.push_back({w.back(), weights[i]});
  }
  return interpret({whole_model(in, w)}, values)[0];
}

/// "" where the logits are those behind token `at` of `want`.
inline std::string differ(const NDArray& logits, const NDArray& want, int64_t at) {
  for (int64_t b = 0; b < want.extent(0); ++b) {
    for (int64_t t = 0; t < kTokens; ++t) {
      const double got = logits.at<float>({b, t}), right = want.at<float>({b, at, t});
      if (!(std::abs(got - right) <= 1e-3 + 1e-3 * std::abs(right)))
        return "token " + std::to_string(at) + " of " + std::to_string(b) + ": " +
               std::to_string(got) + " and not " + std::to_string(right);
    }
  }
  return "";
}

/// Random splits of random sequences.
inline std::string wrong_split(Decoder& decoder, const std::vector<NDArray>& weights, Rng& rng) {
  const int64_t batch = decoder.batch(), n = rng.uniform_int(1, decoder.capacity());
  NDArray ids = NDArray::zeros({batch, n}, i64);
  for (int64_t i = 0; i < ids.size(); ++i)
    ids.set(i, static_cast<double>(rng.uniform_int(0, kTokens - 1)));
  const NDArray want = whole(weights, ids);
  decoder.reset();
  std::string splits;
  for (int64_t begin = 0; begin < n;) {
    const int64_t now = rng.chance(0.5) ? 1 : rng.uniform_int(1, n - begin);
    std::vector<int64_t> part;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = begin; i < begin + now; ++i) part.push_back(ids.at<int64_t>({b, i}));
    }
    begin += now;
    splits += " " + std::to_string(now);
    const std::string wrong = differ(decoder.step(part), want, begin - 1);
    if (!wrong.empty()) return "tokens" + splits + ": " + wrong;
  }
  return "";
}

/// The tokens that each sequence has room for, one after another: each may take what those before it leave.
class Room {
 public:
  /// `rows` of a block, where it has blocks.
  Room(const Decoder& decoder, int64_t rows)
      : decoder_(decoder), rows_(rows), blocks_(decoder.free_blocks()) {}
  int64_t of(int64_t b) const {
    const int64_t left = decoder_.capacity() - decoder_.tokens(b);
    return rows_ == 0 ? left : std::min(left, own(b) + blocks_ * rows_);
  }
  void take(int64_t b, int64_t tokens) {
    if (rows_ > 0) blocks_ -= (std::max<int64_t>(0, tokens - own(b)) + rows_ - 1) / rows_;
  }

 private:
  /// Rows of its blocks without a token.
  int64_t own(int64_t b) const {
    return std::ssize(decoder_.blocks_of(b)) * rows_ - decoder_.tokens(b);
  }
  const Decoder& decoder_;
  const int64_t rows_;
  int64_t blocks_;
};

/// Tokens of a random step: a sequence without room is left out, and now and then another.
inline std::vector<std::vector<int64_t>> random_step(const Decoder& decoder, Rng& rng,
                                                     int64_t rows) {
  std::vector<std::vector<int64_t>> now(static_cast<size_t>(decoder.batch()));
  const bool one = rng.chance(0.5);
  Room room(decoder, rows);
  for (int64_t b = 0; b < decoder.batch(); ++b) {
    if (room.of(b) == 0 || rng.chance(0.2)) continue;
    const int64_t n = one ? 1 : rng.uniform_int(1, room.of(b));
    room.take(b, n);
    for (int64_t i = 0; i < n; ++i)
      now[static_cast<size_t>(b)].push_back(rng.uniform_int(0, kTokens - 1));
  }
  return now;
}

/// Sequences of random lengths, read in random parts, and now and then taken back; each must have the logits that it
/// has alone. `rows` of a block, where the decoder has blocks.
inline std::string wrong_lengths(Decoder& decoder, const std::vector<NDArray>& weights, Rng& rng,
                                 int64_t rows = 0) {
  const auto batch = static_cast<size_t>(decoder.batch());
  std::vector<std::vector<int64_t>> read(batch);
  std::vector<bool> taken_back(batch);  // what its last step returned is not of its tokens
  decoder.reset();
  std::string splits;
  for (int64_t step = rng.uniform_int(1, 8); step > 0; --step) {
    if (rng.chance(0.2)) {
      const int64_t b = rng.uniform_int(0, decoder.batch() - 1);
      decoder.reset(b);
      read[static_cast<size_t>(b)].clear();
      splits += " reset " + std::to_string(b);
    }
    if (rng.chance(0.2)) {
      const int64_t b = rng.uniform_int(0, decoder.batch() - 1);
      const int64_t gone = rng.uniform_int(0, decoder.tokens(b));
      decoder.forget(b, gone);
      if (gone > 0) taken_back[static_cast<size_t>(b)] = true;
      read[static_cast<size_t>(b)].resize(static_cast<size_t>(decoder.tokens(b)));
      splits += " forget " + std::to_string(gone) + " of " + std::to_string(b);
    }
    const std::vector<std::vector<int64_t>> now = random_step(decoder, rng, rows);
    splits += " (";
    for (size_t b = 0; b < batch; ++b) {
      read[b].insert(read[b].end(), now[b].begin(), now[b].end());
      splits += " " + std::to_string(now[b].size());
    }
    splits += ")";
    if (std::all_of(now.begin(), now.end(), [](const auto& list) { return list.empty(); }))
      continue;
    const NDArray logits = decoder.step_each(now);
    for (size_t b = 0; b < batch; ++b) {
      const int64_t n = std::ssize(read[b]), at = static_cast<int64_t>(b);
      if (decoder.tokens(at) != n) return splits + ": " + std::to_string(decoder.tokens(at));
      if (!now[b].empty()) taken_back[b] = false;
      if (n == 0 || taken_back[b]) continue;
      const NDArray want = whole(weights, NDArray::from<int64_t>(read[b], {1, n}));
      const std::string wrong = differ(logits.rows(at, at + 1), want, n - 1);
      if (!wrong.empty()) return "sequence " + std::to_string(b) + splits + ": " + wrong;
    }
  }
  return "";
}

}  // namespace heddle::testing
