// Counts of sequences of words, which are numbers.
#include <algorithm>

#include "heddle/ops/elementwise.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

/// The sequences that are counted: rows of words, and where their counts go.
struct Grams {
  NDArray words, sizes, targets;
  int64_t most = 0, results = 0;
};

// Attribute 'ngram_counts' has the place in the pool where the sequences of each length begin.
Grams grams_of(const NodeScope& s) {
  const std::vector<int64_t> pool = s.integers("pool_int64s"), begins = s.integers("ngram_counts");
  const std::vector<int64_t> targets = s.integers("ngram_indexes");
  if (pool.empty()) s.fail("sequences of texts are not supported");
  const int64_t shortest = s.integer("min_gram_length"), longest = s.integer("max_gram_length");
  std::vector<std::vector<int64_t>> rows;
  std::vector<int64_t> to;
  size_t number = 0;
  const auto end = static_cast<int64_t>(pool.size());
  for (size_t n = 0; n < begins.size(); ++n) {
    const int64_t from = begins[n], next = n + 1 < begins.size() ? begins[n + 1] : end;
    const auto size = static_cast<int64_t>(n) + 1;
    if (from < 0 || next < from || next > end || (next - from) % size != 0)
      s.fail("attribute 'ngram_counts' is " + shape_text(begins) + ", and the pool has " +
             std::to_string(end) + " words");
    for (int64_t at = from; at < next; at += size, ++number) {
      if (number >= targets.size() || targets[number] < 0 || targets[number] >= (1 << 30))
        s.fail("attribute 'ngram_indexes' does not have an index for each sequence");
      if (size < shortest || size > longest) continue;
      rows.emplace_back(pool.begin() + at, pool.begin() + at + size);
      to.push_back(targets[number]);
    }
  }
  if (rows.empty()) s.fail("it counts no sequences");
  Grams g;
  for (const auto& row : rows) g.most = std::max(g.most, static_cast<int64_t>(row.size()));
  g.results = *std::max_element(targets.begin(), targets.end()) + 1;
  std::vector<int64_t> words, sizes;
  for (auto& row : rows) {
    sizes.push_back(static_cast<int64_t>(row.size()));
    row.resize(static_cast<size_t>(g.most), 0);
    words.insert(words.end(), row.begin(), row.end());
  }
  const auto count = static_cast<int64_t>(rows.size());
  g.words = array_of_integers(words, {count, g.most});
  g.sizes = array_of_integers(sizes, {count});
  g.targets = array_of_integers(to, {count});
  return g;
}

/// How often each sequence occurs in each row of x (B, C), with up to `skips` words left out between two.
Tensor occurrences(const NodeScope& s, const Tensor& x, const Grams& g, int64_t skips) {
  const Tensor words = s.constant(g.words).tensor(), sizes = s.constant(g.sizes).tensor();
  const int64_t length = x.extent(1), most = g.most;
  const Axis from = reduce_axis(length, "t"), skip = reduce_axis(skips + 1, "d");
  return compute(
      Shape{x.extent(0), g.words.extent(0)},
      [&](Axis b, Axis gram) {
        // Single words are counted once, whatever is left out.
        Expr hit = logical_or(sizes(gram) > 1, Expr(skip) < 1);
        for (int64_t w = 0; w < most; ++w) {
          const Expr at = from + (skip + 1) * w;
          const Expr word = cast(i64, x(b, heddle::min(at, Expr(length - 1))));
          const Expr same = logical_and(at < length, word == words(gram, Expr(w)));
          hit = logical_and(hit, logical_or(Expr(w) >= sizes(gram), same));
        }
        return heddle::sum(select(hit, make_const(f32, 1), make_const(f32, 0)), {from, skip});
      },
      "ngram_hits", "ngrams", s.at());
}

std::vector<Value> count_sequences(const NodeScope& s) {
  const std::string mode = s.text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    s.fail("attribute 'mode' is '" + mode + "'");
  const int64_t skips = s.integer("max_skip_count");
  if (skips < 0 || skips > (1 << 16))
    s.fail("attribute 'max_skip_count' is " + std::to_string(skips));
  if (s.rank(0) < 1 || s.rank(0) > 2 || !s.dtype(0).is_integral())
    s.fail("its input " + shape_text(s.shape(0)) + " is not rows of integers");
  const Grams g = grams_of(s);
  const bool row = s.rank(0) == 1;
  const Tensor given = s.tensor(0);
  const int64_t length = given.extent(-1), rows = row ? 1 : given.extent(0);
  const Tensor x = compute(
      Shape{rows, length}, [&](Axis b, Axis t) { return row ? given(t) : given(b, t); }, "words",
      "ngrams", s.at());
  const Tensor hits = occurrences(s, x, g, skips);
  std::vector<float> weights = s.numbers("weights");
  const Tensor targets = s.constant(g.targets).tensor();
  const bool weighted = mode != "TF" && !weights.empty();
  if (weighted && static_cast<int64_t>(weights.size()) < g.results)
    s.fail("attribute 'weights' has fewer numbers than there are results");
  Tensor factors;
  if (weighted) {
    weights.resize(static_cast<size_t>(g.results));
    factors = s.constant(NDArray::from(weights, {g.results})).tensor();
  }
  const Axis gram = reduce_axis(g.words.extent(0), "g");
  const Tensor counts = compute(
      Shape{rows, g.results},
      [&](Axis b, Axis r) {
        return heddle::sum(select(targets(gram) == Expr(r), hits(b, gram), make_const(f32, 0)),
                           gram);
      },
      "ngram_counts", "ngrams", s.at());
  Extents shape{g.results};
  if (!row) shape.insert(shape.begin(), rows);
  return {compute(
      shape,
      [&](const std::vector<Axis>& i) {
        const Expr count = row ? counts(Expr(0), i.back()) : counts(i[0], i.back());
        const Expr one = make_const(f32, 1), none = make_const(f32, 0);
        const Expr value = mode == "IDF" ? select(count > none, one, none) : count;
        return weighted ? value * factors(i.back()) : value;
      },
      "ngrams", "ngrams", s.at())};
}

}  // namespace

std::vector<OperatorEntry> ngram_operators() { return {{"TfIdfVectorizer", count_sequences}}; }

}  // namespace heddle::onnx
