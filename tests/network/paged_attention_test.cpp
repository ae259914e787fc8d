// Keys and values in blocks: steps of sequences of different lengths, whose rows go to blocks that a
// table of random entries names, against loops over the same memory.
#include <cmath>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "environment.h"
#include "heddle/dsl/update.h"
#include "heddle/ops/paged.h"
#include "heddle/support/rng.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Sizes {
  int64_t batch, groups, heads, size, blocks, slots, most, rows;
};

/// A step of `rows` tokens for each sequence.
struct Paged {
  Sizes s;
  DataType type;
  Tensor q = placeholder({s.batch, s.heads, s.rows, s.size}, type, "q");
  Tensor k = placeholder({s.batch, s.rows, s.groups, s.size}, type, "k");
  Tensor v = placeholder({s.batch, s.rows, s.groups, s.size}, type, "v");
  Tensor table = placeholder({s.batch, s.most}, i32, "table");
  Tensor lengths = placeholder({s.batch}, i32, "lengths");
  Tensor keys = placeholder({s.blocks, s.slots, s.groups, s.size}, type, "keys");
  Tensor values = placeholder({s.blocks, s.slots, s.groups, s.size}, type, "values");
  Tensor places = ops::paged_places(keys, table, lengths, s.rows);
  Tensor next_keys = update(keys, k, places), next_values = update(values, v, places);
  Tensor y =
      ops::attention(q, ops::paged_rows(next_keys, table), ops::paged_rows(next_values, table),
                     {.causal = true, .offsets = lengths})
          .result;

  Network network(const Target& target) const {
    return Network({y}, target, {}, {}, {{keys, next_keys}, {values, next_values}});
  }
};

/// The block that entry `i` of a row of the table names; the nearest one where it is none.
int64_t block_of(const Sizes& s, const NDArray& table, int64_t b, int64_t i) {
  return std::clamp<int64_t>(table.at<int32_t>({b, i}), 0, s.blocks - 1);
}

/// Stores the rows of a step in `cache` (blocks, slots, groups, size), as the declaration says.
void store(const Sizes& s, const NDArray& table, const NDArray& lengths, const NDArray& rows,
           NDArray& cache) {
  const int64_t row = s.groups * s.size;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t j = 0; j < s.rows; ++j) {
      const int64_t at = lengths.at<int32_t>({b}) + j;
      if (at < 0 || at >= s.most * s.slots) continue;
      const int64_t block = table.at<int32_t>({b, at / s.slots});
      if (block < 0 || block >= s.blocks) continue;
      for (int64_t e = 0; e < row; ++e)
        cache.set((block * s.slots + at % s.slots) * row + e, rows.get((b * s.rows + j) * row + e));
    }
  }
}

/// What sequence `b` gets for query `i` of head `h`.
std::vector<double> attended(const Sizes& s, const NDArray& q, const NDArray& table, int64_t length,
                             const NDArray& keys, const NDArray& values, int64_t b, int64_t h,
                             int64_t i) {
  const int64_t group = h / (s.heads / s.groups);
  std::vector<double> out(static_cast<size_t>(s.size));
  double total = 0, top = -1e30;
  std::vector<double> scores;
  const int64_t last = std::min(length + i, s.most * s.slots - 1);
  const auto row = [&](int64_t t) {
    return ((block_of(s, table, b, t / s.slots) * s.slots + t % s.slots) * s.groups + group) *
           s.size;
  };
  for (int64_t t = 0; t <= last; ++t) {
    double score = 0;
    for (int64_t e = 0; e < s.size; ++e)
      score += q.get(((b * s.heads + h) * s.rows + i) * s.size + e) * keys.get(row(t) + e);
    scores.push_back(score / std::sqrt(static_cast<double>(s.size)));
    top = std::max(top, scores.back());
  }
  for (int64_t t = 0; t <= last; ++t) {
    const double weight = std::exp(scores[static_cast<size_t>(t)] - top);
    total += weight;
    for (int64_t e = 0; e < s.size; ++e)
      out[static_cast<size_t>(e)] += weight * values.get(row(t) + e);
  }
  for (double& x : out) x /= total;
  return out;
}

class Steps {
 public:
  Steps(const Paged& paged, const Target& target, double tolerance)
      : p_(paged),
        s_(paged.s),
        run_(paged.network(target).build(
            {p_.q, p_.k, p_.v, p_.table, p_.lengths, p_.keys, p_.values, p_.y})),
        tolerance_(tolerance),
        keys_(NDArray::random(p_.keys.extents(), p_.type, 91)),
        values_(NDArray::random(p_.values.extents(), p_.type, 92)) {}

  /// "" where random steps give what the loops do.
  std::string wrong(Rng& rng) {
    const NDArray table = random_table(rng), lengths = NDArray::zeros({s_.batch}, i32);
    for (int64_t b = 0; b < s_.batch; ++b)
      lengths.set(b, static_cast<double>(rng.uniform_int(0, s_.most * s_.slots - 1)));
    for (int step = 0; step < 2; ++step) {
      const auto seed = static_cast<uint64_t>(rng.uniform_int(1, 1 << 20));
      const std::string here = wrong_step(table, lengths, seed);
      if (!here.empty()) return "step " + std::to_string(step) + ": " + here;
      for (int64_t b = 0; b < s_.batch; ++b)
        lengths.set(b, lengths.get(b) + static_cast<double>(s_.rows));
    }
    return "";
  }

 private:
  /// Blocks in a random order, and here and there one twice, or an entry that is no block.
  NDArray random_table(Rng& rng) const {
    NDArray table = NDArray::zeros({s_.batch, s_.most}, i32);
    std::vector<int64_t> blocks;
    for (int64_t i = 0; i < table.size(); ++i) blocks.push_back(i % s_.blocks);
    for (int64_t i = 0; i < table.size(); ++i) {
      std::swap(blocks[static_cast<size_t>(i)],
                blocks[static_cast<size_t>(rng.uniform_int(i, table.size() - 1))]);
      int64_t entry = blocks[static_cast<size_t>(i)];
      if (rng.chance(0.1)) entry = rng.uniform_int(-3, s_.blocks + 2);
      if (rng.chance(0.02)) entry = rng.chance(0.5) ? INT32_MAX : INT32_MIN;
      table.set(i, static_cast<double>(entry));
    }
    return table;
  }

  std::string wrong_step(const NDArray& table, const NDArray& lengths, uint64_t seed) {
    const NDArray q = NDArray::random(p_.q.extents(), p_.type, seed),
                  k = NDArray::random(p_.k.extents(), p_.type, seed + 1),
                  v = NDArray::random(p_.v.extents(), p_.type, seed + 2);
    NDArray want_keys = keys_.copy(), want_values = values_.copy();
    store(s_, table, lengths, k, want_keys);
    store(s_, table, lengths, v, want_values);
    const NDArray y = NDArray::zeros(p_.y.extents(), p_.y.dtype());
    run_(q, k, v, table, lengths, keys_, values_, y);
    if (!compare(keys_, want_keys, 0, 0).ok()) return "the keys differ";
    if (!compare(values_, want_values, 0, 0).ok()) return "the values differ";
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        for (int64_t i = 0; i < s_.rows; ++i) {
          const std::vector<double> want =
              attended(s_, q, table, lengths.at<int32_t>({b}), want_keys, want_values, b, h, i);
          for (int64_t e = 0; e < s_.size; ++e) {
            const double got = y.get(((b * s_.heads + h) * s_.rows + i) * s_.size + e);
            if (!(std::abs(got - want[static_cast<size_t>(e)]) <= tolerance_))
              return "sequence " + std::to_string(b) + ", head " + std::to_string(h) + ": " +
                     std::to_string(got) + " and not " +
                     std::to_string(want[static_cast<size_t>(e)]);
          }
        }
      }
    }
    return "";
  }

  const Paged& p_;
  const Sizes& s_;
  NetworkKernel run_;
  const double tolerance_;
  NDArray keys_, values_;
};

TEST(PagedAttention, RowsAreStoredAndReadThroughTheTable) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 40),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (const Sizes& s : {Sizes{3, 2, 4, 8, 11, 4, 3, 1}, Sizes{1, 1, 1, 5, 3, 2, 4, 1},
                         Sizes{4, 2, 2, 16, 9, 3, 2, 3}, Sizes{2, 1, 8, 16, 5, 8, 2, 5}}) {
    const Paged paged{s, f32};
    EXPECT_THAT(paged.network(Target::host()).passes(), IsEmpty());
    Steps steps(paged, Target::host(), 1e-4);
    for (int64_t n = first; n < first + count / 4; ++n) {
      Rng rng(static_cast<uint64_t>(n));
      EXPECT_EQ(steps.wrong(rng), "") << "seed " << n << ", batch " << s.batch;
    }
  }
}

TEST(PagedAttention, AGpuReadsThroughTheTable) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  for (const auto& [s, type] : {std::pair(Sizes{2, 2, 8, 16, 9, 4, 4, 1}, f32),
                                std::pair(Sizes{2, 2, 8, 16, 9, 16, 4, 1}, f16),
                                std::pair(Sizes{2, 2, 4, 32, 9, 16, 4, 8}, f16)}) {
    cuda::FakeDriver driver;
    const cuda::ScopedDriver scope(&driver.api());
    const Paged paged{s, type};
    const Network network = paged.network(gpu);
    emulate_network(driver, network, gpu);
    Steps steps(paged, gpu, type == f32 ? 1e-4 : 4e-3);
    for (uint64_t n = 1; n < 3; ++n) {
      Rng rng(n);
      EXPECT_EQ(steps.wrong(rng), "") << "seed " << n;
    }
  }
}

TEST(PagedAttention, MistakesAreErrors) {
  const Tensor cache = placeholder({4, 8, 2, 16}, f32), table = placeholder({3, 2}, i32),
               lengths = placeholder({3}, i32);
  EXPECT_THAT(message_of([&] { (void)ops::paged_places(cache, table, placeholder({2}, i32), 1); }),
              HasSubstr("one length for each sequence"));
  EXPECT_THAT(message_of([&] { (void)ops::paged_rows(cache, lengths); }),
              HasSubstr("needs 2 or more dimensions"));
  EXPECT_THAT(message_of([&] { (void)ops::paged_rows(lengths, table); }),
              HasSubstr("another rank"));
  EXPECT_THAT(message_of([&] { (void)ops::paged_rows(cache, placeholder({3, 2}, f32)); }),
              HasSubstr("needs integers"));
}

}  // namespace
}  // namespace heddle::testing
