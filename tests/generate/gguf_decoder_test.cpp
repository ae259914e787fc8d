// The networks of GGUF files: their logits are those of plain loops over the tensors, whatever the calls
// are; files that say something wrong are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "generate/gguf_file.h"
#include "heddle/generate/decoder.h"
#include "heddle/generate/gguf.h"
#include "heddle/heddle.h"
#include "heddle/support/rng.h"
#include "support/files/file.h"
#include "support/numbers/half.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using Row = std::vector<double>;

constexpr int64_t kLayers = 2, kHidden = 64, kHeads = 4, kGroups = 2, kSize = 16, kInner = 96,
                  kVocabulary = 40;
constexpr double kEpsilon = 1e-5, kBase = 10000;

/// A file in memory, and the values of its tensors.
struct Toy {
  std::string family;
  double stretch = 1;  ///< positions are divided by this
  std::vector<GgufPart> parts;
  std::vector<GgufEntry> entries;
  std::map<std::string, std::vector<Row>> values = {};
  Rng rng{7};

  double drawn() { return static_cast<double>(rng() % 2001) / 1000 - 1; }

  void add(const std::string& name, int64_t rows, int64_t columns, uint32_t type) {
    GgufPart part{name, {static_cast<uint64_t>(columns)}, type, ""};
    if (rows > 0) part.extents.push_back(static_cast<uint64_t>(rows));
    std::vector<Row>& all = values[name];
    for (int64_t r = 0; r < std::max<int64_t>(1, rows); ++r) {
      Row row;
      if (type == 0) {
        for (int64_t k = 0; k < columns; ++k) {
          const auto x = static_cast<float>(rows > 0 ? drawn() * 0.3 : 1 + 0.2 * drawn());
          part.bytes += raw_bytes(x);
          row.push_back(x);
        }
      } else {
        for (int64_t b = 0; b < columns / 32; ++b) add_block(part.bytes, row, type);
      }
      all.push_back(row);
    }
    parts.push_back(part);
  }

  /// A block of Q4_0 or Q8_0.
  void add_block(std::string& bytes, Row& row, uint32_t type) {
    const uint16_t scale = float_to_half(static_cast<float>(type == 2 ? 0.05 : 0.003));
    bytes += raw_bytes(scale);
    const double by = half_to_float(scale);
    std::vector<double> q(32);
    if (type == 8) {
      for (double& x : q) {
        const auto number = static_cast<int8_t>(static_cast<int>(rng() % 255) - 127);
        bytes += raw_bytes(number);
        x = number;
      }
    } else {
      for (size_t j = 0; j < 16; ++j) {
        const auto byte = static_cast<uint8_t>(rng() % 256);
        bytes += raw_bytes(byte);
        q[j] = (byte & 15) - 8;
        q[j + 16] = (byte >> 4) - 8;
      }
    }
    for (const double x : q) row.push_back(x * by);
  }

  Row times(const std::string& name, const Row& x) const {
    Row y;
    for (const Row& w : values.at(name)) {
      double sum = 0;
      for (size_t k = 0; k < x.size(); ++k) sum += w[k] * x[k];
      y.push_back(sum);
    }
    const auto bias = values.find(name.substr(0, name.rfind('.')) + ".bias");
    for (size_t i = 0; bias != values.end() && i < y.size(); ++i) y[i] += bias->second[0][i];
    return y;
  }

  Row normed(const std::string& name, const Row& x) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    Row y;
    for (size_t k = 0; k < x.size(); ++k)
      y.push_back(x[k] / std::sqrt(sum / static_cast<double>(x.size()) + kEpsilon) *
                  values.at(name)[0][k]);
    return y;
  }

  /// The heads of a row, normed where the file has a norm, and rotated.
  std::vector<Row> heads(const Row& all, const std::string& norm, int64_t position) const {
    std::vector<Row> out;
    for (size_t h = 0; h < all.size() / kSize; ++h) {
      Row x(all.begin() + static_cast<long>(h) * kSize,
            all.begin() + static_cast<long>(h + 1) * kSize);
      if (values.contains(norm)) x = normed(norm, x);
      Row y = x;
      for (size_t i = 0; i < kSize / 2; ++i) {
        const size_t a = family == "llama" ? 2 * i : i,
                     b = family == "llama" ? a + 1 : i + kSize / 2;
        const double angle = static_cast<double>(position) / stretch *
                             std::pow(kBase, -2.0 * static_cast<double>(i) / kSize);
        y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        y[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
      out.push_back(y);
    }
    return out;
  }

  /// The logits behind the last token.
  Row logits(const std::vector<int64_t>& ids) const {
    std::vector<Row> x;
    for (const int64_t id : ids)
      x.push_back(values.at("token_embd.weight")[static_cast<size_t>(id)]);
    for (int64_t l = 0; l < kLayers; ++l) {
      const std::string at = "blk." + std::to_string(l) + ".";
      std::vector<std::vector<Row>> keys;
      std::vector<Row> cached;
      for (size_t p = 0; p < x.size(); ++p) {
        const Row h = normed(at + "attn_norm.weight", x[p]);
        keys.push_back(heads(times(at + "attn_k.weight", h), at + "attn_k_norm.weight",
                             static_cast<int64_t>(p)));
        cached.push_back(times(at + "attn_v.weight", h));
      }
      for (size_t p = 0; p < x.size(); ++p) {
        const auto q = heads(times(at + "attn_q.weight", normed(at + "attn_norm.weight", x[p])),
                             at + "attn_q_norm.weight", static_cast<int64_t>(p));
        const Row y = attended(q, keys, cached, p);
        const Row out = times(at + "attn_output.weight", y);
        for (size_t k = 0; k < out.size(); ++k) x[p][k] += out[k];
        const Row h = normed(at + "ffn_norm.weight", x[p]);
        Row gate = times(at + "ffn_gate.weight", h);
        const Row up = times(at + "ffn_up.weight", h);
        for (size_t k = 0; k < gate.size(); ++k)
          gate[k] = gate[k] / (1 + std::exp(-gate[k])) * up[k];
        const Row down = times(at + "ffn_down.weight", gate);
        for (size_t k = 0; k < down.size(); ++k) x[p][k] += down[k];
      }
    }
    const bool tied = !values.contains("output.weight");
    return times(tied ? "token_embd.weight" : "output.weight",
                 normed("output_norm.weight", x.back()));
  }

  static Row attended(const std::vector<Row>& q, const std::vector<std::vector<Row>>& keys,
                      const std::vector<Row>& cached, size_t position) {
    Row y;
    for (size_t h = 0; h < q.size(); ++h) {
      const size_t group = h / (kHeads / kGroups);
      Row weights;
      double sum = 0;
      for (size_t t = 0; t <= position; ++t) {
        double score = 0;
        for (size_t e = 0; e < kSize; ++e) score += q[h][e] * keys[t][group][e];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kSize))));
        sum += weights.back();
      }
      for (size_t e = 0; e < kSize; ++e) {
        double value = 0;
        for (size_t t = 0; t <= position; ++t)
          value += weights[t] / sum * cached[t][group * kSize + e];
        y.push_back(value);
      }
    }
    return y;
  }
};

Toy toy(const std::string& family, uint32_t type, bool tied) {
  Toy m{.family = family, .parts = {}, .entries = {}};
  const auto key = [&](const std::string& name) { return family + "." + name; };
  m.entries = {gguf_string("general.architecture", family),
               gguf_number(key("block_count"), kLayers),
               gguf_number(key("embedding_length"), kHidden),
               gguf_number(key("attention.head_count"), kHeads),
               gguf_number(key("attention.head_count_kv"), kGroups),
               gguf_number(key("context_length"), 64),
               gguf_float(key("attention.layer_norm_rms_epsilon"), static_cast<float>(kEpsilon)),
               gguf_float(key("rope.freq_base"), static_cast<float>(kBase))};
  m.add("token_embd.weight", kVocabulary, kHidden, type);
  m.add("output_norm.weight", 0, kHidden, 0);
  if (!tied) m.add("output.weight", kVocabulary, kHidden, type);
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string at = "blk." + std::to_string(l) + ".";
    for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"})
      m.add(at + norm, 0, kHidden, 0);
    m.add(at + "attn_q.weight", kHeads * kSize, kHidden, type);
    m.add(at + "attn_k.weight", kGroups * kSize, kHidden, type);
    m.add(at + "attn_v.weight", kGroups * kSize, kHidden, type);
    m.add(at + "attn_output.weight", kHidden, kHeads * kSize, type);
    m.add(at + "ffn_gate.weight", kInner, kHidden, type);
    m.add(at + "ffn_up.weight", kInner, kHidden, type);
    m.add(at + "ffn_down.weight", kHidden, kInner, type);
    if (family == "qwen2") {
      m.add(at + "attn_q.bias", 0, kHeads * kSize, 0);
      m.add(at + "attn_k.bias", 0, kGroups * kSize, 0);
      m.add(at + "attn_v.bias", 0, kGroups * kSize, 0);
    }
    if (family == "qwen3") {
      for (const char* norm : {"attn_q_norm.weight", "attn_k_norm.weight"})
        m.add(at + norm, 0, kSize, 0);
    }
  }
  return m;
}

std::string written(const Toy& m) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "toy_decoder.gguf";
  write_file_atomic(path.string(), gguf_bytes(m.parts, 3, m.entries));
  return path.string();
}

void expect_logits(const Toy& m, const NDArray& got, int64_t row, const std::vector<int64_t>& ids) {
  const Row want = m.logits(ids);
  for (int64_t v = 0; v < kVocabulary; ++v)
    ASSERT_NEAR(got.data<float>()[row * kVocabulary + v], want[static_cast<size_t>(v)], 2e-4)
        << m.family << ", token " << v << " behind " << ids.size();
}

TEST(GgufDecoder, GivesTheLogitsOfPlainLoops) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    for (const uint32_t type : {0U, 2U, 8U}) {
      const Toy m = toy(family, type, type == 2);
      const OnnxModel model =
          last_logits(gguf_decoder(GgufFile(written(m)), {.capacity = 32, .rows = 4}));
      Decoder decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
      std::vector<int64_t> ids;
      for (const int64_t n : {6, 1, 1, 3}) {
        std::vector<int64_t> next;
        for (int64_t i = 0; i < n; ++i)
          next.push_back((7 * std::ssize(ids) + 3 * i + 5) % kVocabulary);
        ids.insert(ids.end(), next.begin(), next.end());
        expect_logits(m, decoder.step(next), 0, ids);
      }
    }
  }
}

TEST(GgufDecoder, SequencesOfABatchMayDiffer) {
  const Toy m = toy("llama", 8, false);
  const OnnxModel model =
      last_logits(gguf_decoder(GgufFile(written(m)), {.capacity = 24, .rows = 4, .batch = 2}));
  Decoder decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
  const std::vector<int64_t> a{1, 2, 3, 4, 5}, b{9, 8};
  const NDArray logits = decoder.step_each({a, b});
  expect_logits(m, logits, 0, a);
  expect_logits(m, logits, 1, b);
}

TEST(GgufDecoder, SequencesMayShareBlocks) {
  const Toy m = toy("qwen3", 2, true);
  const OnnxModel model = last_logits(gguf_decoder(
      GgufFile(written(m)), {.capacity = 24, .rows = 4, .batch = 3, .blocks = {5, 6}}));
  Decoder decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
  std::vector<std::vector<int64_t>> read{{1, 2, 3, 4, 5, 6}, {9, 8}, {7, 7, 7}};
  NDArray logits = decoder.step_each(read);
  EXPECT_EQ(decoder.free_blocks(), 2);
  for (int64_t n = 0; n < 4; ++n) {
    for (int64_t b = 0; b < 3; ++b) expect_logits(m, logits, b, read[static_cast<size_t>(b)]);
    logits = decoder.step_each({{n}, {n + 20}, {39 - n}});
    read[0].push_back(n);
    read[1].push_back(n + 20);
    read[2].push_back(39 - n);
  }
  EXPECT_EQ(decoder.free_blocks(), 0);
}

// A file may have a factor without a type, and an old one has another name for it.
TEST(GgufDecoder, PositionsAreStretched) {
  for (const char* name : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    for (const char* type : {"", "linear", "none"}) {
      Toy m = toy("llama", 0, false);
      m.entries.push_back(gguf_float(name, 4));
      if (*type) m.entries.push_back(gguf_string("llama.rope.scaling.type", type));
      if (std::string(type) != "none") m.stretch = 4;
      const OnnxModel model =
          last_logits(gguf_decoder(GgufFile(written(m)), {.capacity = 16, .rows = 4}));
      Decoder decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
      const std::vector<int64_t> ids{5, 8, 11, 14};
      expect_logits(m, decoder.step(ids), 0, ids);
    }
  }
}

/// The message of the error for a file; empty where there is none.
std::string error_of(const Toy& m, const DecoderSizes& sizes = {.capacity = 32, .rows = 4}) {
  try {
    (void)gguf_decoder(GgufFile(written(m)), sizes);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    return e.message;
  }
  return {};
}

TEST(GgufDecoder, FilesThatAreWrongAreErrors) {
  const Toy good = toy("llama", 0, false);
  EXPECT_EQ(error_of(good), "");
  EXPECT_THAT(error_of(good, {.capacity = 65, .rows = 4}), HasSubstr("context_length, 64"));
  for (size_t i = 0; i < good.entries.size(); ++i) {
    const std::string& name = good.entries[i].name;
    Toy m = good;
    const bool usual = name == "llama.context_length" || name == "llama.rope.freq_base" ||
                       name == "llama.attention.head_count_kv";
    m.entries[i] = gguf_string(name, "x");
    EXPECT_THAT(error_of(m), HasSubstr("\"x\"")) << name;
    if (usual) continue;
    m.entries.erase(m.entries.begin() + static_cast<long>(i));
    EXPECT_THAT(error_of(m), HasSubstr("not given")) << name;
  }
  for (const char* name :
       {"llama.attention.head_count", "llama.block_count", "llama.attention.head_count_kv",
        "llama.embedding_length", "llama.rope.dimension_count"}) {
    for (const uint32_t value : {0U, 3U, 0xffffffffU}) {
      Toy m = good;
      std::erase_if(m.entries, [&](const GgufEntry& e) { return e.name == name; });
      m.entries.push_back(gguf_number(name, value));
      EXPECT_NE(error_of(m), "") << name << " " << value;
    }
  }
  for (size_t i = 0; i < good.parts.size(); ++i) {
    Toy m = good;
    m.parts[i].extents.back() /= 2;
    m.parts[i].bytes.resize(m.parts[i].bytes.size() / 2);
    EXPECT_NE(error_of(m), "") << m.parts[i].name;
    m.parts.erase(m.parts.begin() + static_cast<long>(i));
    const bool needed = good.parts[i].name != "output.weight";
    EXPECT_THAT(error_of(m), HasSubstr(needed ? "no tensor" : ""));
  }
}

// A network with a bias that is not read would give other logits without a word.
TEST(GgufDecoder, TensorsWithoutAPlaceAreErrors) {
  for (const char* name : {"blk.0.attn_output.bias", "blk.1.ffn_down.bias", "blk.2.attn_q.weight",
                           "output.bias", "rope_freqs.bias"}) {
    Toy m = toy("llama", 0, false);
    m.add(name, 0, kHidden, 0);
    EXPECT_THAT(error_of(m), HasSubstr(name));
  }
  Toy old = toy("llama", 0, false);
  old.add("blk.0.attn_rot_embd.weight", 0, kSize / 2, 0);
  EXPECT_EQ(error_of(old), "");
}

TEST(GgufDecoder, FactorsOfFrequenciesArePositive) {
  for (const float factor : {0.0F, -1.0F, std::nanf(""), INFINITY}) {
    Toy m = toy("llama", 0, false);
    m.add("rope_freqs.weight", 0, kSize / 2, 0);
    m.parts.back().bytes.replace(0, sizeof factor, raw_bytes(factor));
    EXPECT_THAT(error_of(m), HasSubstr("rope_freqs"));
  }
}

}  // namespace
}  // namespace heddle::testing
