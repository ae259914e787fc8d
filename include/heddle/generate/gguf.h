// Weights in GGUF files, the format of ggml (versions 2 and 3,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): tensors by name, of f32, f16, bf16, and
// of blocks of few bits (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4).
//
//   GgufFile file("model.gguf");
//   Tensor w = file.weights("blk.0.ffn_up.weight");  // (rows, columns) of f32, its bits unpacked
//   Tensor y = ops::matmul(x, w, false, true);
//
// Blocks stay as they are in memory; products of few rows unpack them in registers. A file of a language
// model says what its network is, from which decoder.h makes a decoder:
//
//   OnnxModel model = gguf_decoder(GgufFile("model.gguf"), {.capacity = 1024});
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/onnx/import.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/json.h"

namespace heddle {

/// How the elements of a tensor are stored. The values are those of the format.
enum class GgufType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
  MXFP4 = 39
};

/// "q4_K", as ggml writes it.
std::string to_string(GgufType type);

struct GgufTensor {
  std::string name;
  Extents shape;  ///< outermost dimension first; blocks lie along the last one
  GgufType type = GgufType::F32;
  uint64_t begin = 0, bytes = 0;  ///< in the file
};

/// What a file has. Tensors are read when they are asked for.
class GgufFile {
 public:
  /// Reads the list of tensors. Throws a Runtime error where the file cannot be read, and a User
  /// error, which names the part that is wrong, for a file that is no GGUF: sizes that go beyond the
  /// file, tensors without whole blocks, types that are not supported, names that occur twice.
  explicit GgufFile(const std::string& path);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Throws a User error, with similar names, where there is none.
  const GgufTensor& tensor(const std::string& name) const;
  /// Numbers, texts and booleans of the file, such as "llama.block_count". Lists are left out.
  const Json& metadata() const { return metadata_; }

  /// The tensor as a declaration over constants in the file's own bits: f32, or f16 and bf16 of a file
  /// that has these.
  Tensor weights(const std::string& name) const;

  const std::string& path() const { return path_; }
  /// The bytes of a tensor. Throws a Runtime error where they cannot be read.
  std::string bytes_of(const GgufTensor& t) const;

 private:
  std::string path_;
  std::vector<GgufTensor> tensors_;
  Json metadata_;
};

/// Whether a file begins as GGUF files do; false where there is none.
bool is_gguf(const std::string& path);

/// The decoder that a file describes, with states as import_onnx makes them (OnnxOptions::states): inputs
/// input_ids and position_ids (batch, n), attention_mask (batch, total), and logits (batch, n, vocabulary).
/// Architectures: llama, qwen2 and qwen3, without experts. Computes in f32. Throws a User error, which names
/// what is missing or wrong, for other files and for a capacity beyond the file's context_length.
OnnxModel gguf_decoder(const GgufFile& file, const DecoderSizes& sizes = {});

}  // namespace heddle
