// A language model that keeps the keys and values of what it has read.
//
//   OnnxModel model = last_logits(import_onnx("gpt2.onnx", decoder_options("gpt2.onnx")));
//   Decoder decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
//   NDArray logits = decoder.step({15496, 11, 995});  // the prompt
//   for (int n = 0; n < 32; ++n) {
//     const int64_t id = sample({logits.data<float>(), size_t(logits.size())}, {}, n);
//     logits = decoder.step({id});
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/onnx/import.h"

namespace heddle {

namespace generate {
class CallMemory;
}

/// The names of inputs and outputs of a file that a decoder gives and reads. Inputs that a file does
/// not have are left out.
struct DecoderNames {
  std::string ids = "input_ids";  ///< (batch, n): tokens
  /// (batch, total): 1 for each token, 0 for what fills up a shorter sequence
  std::string mask = "attention_mask";
  std::string positions = "position_ids";  ///< (batch, n)
  /// (batch, n, vocabulary), or (batch, vocabulary) of the last token (last_logits), of f32.
  std::string logits = "logits";
};

/// The model with the logits behind the last token of a call, (batch, vocabulary), in the place of those
/// behind each: their product is computed for one row. Throws a User error where `logits` is no output
/// of rank 3.
OnnxModel last_logits(OnnxModel model, const std::string& logits = "logits");

/// Reads tokens and gives the logits of the next. Calls come one after the other.
class Decoder {
 public:
  /// `model` was imported with OnnxOptions::states, and `network` is of it. Compiles the kernels.
  /// Throws a User error for a model with other inputs.
  Decoder(const OnnxModel& model, const Network& network, const DecoderNames& names = {});

  int64_t batch() const { return batch_; }
  int64_t capacity() const { return capacity_; }  ///< tokens of a sequence
  int64_t most() const { return most_; }          ///< tokens of one call of the network
  /// The tokens of the longest sequence.
  int64_t length() const;
  /// The tokens that a sequence has read.
  int64_t tokens(int64_t sequence) const { return counts_[static_cast<size_t>(sequence)]; }
  int64_t vocabulary() const { return vocabulary_; }
  const NetworkKernel& kernel() const { return kernel_; }

  /// Reads the tokens, `ids` of (batch, n), and returns the logits behind the last of each sequence:
  /// (batch, vocabulary) of f32, on the CPU. The array is the caller's: later steps leave it alone, and
  /// use its memory again once no handle of it is left. Longer lists are several calls of the network.
  /// On a GPU the next step is prepared while this one runs: that of one more token for each sequence
  /// that reads now. Another may come in its place. Throws a User error, and reads nothing, where the capacity is too small and for a token outside of the
  /// vocabulary.
  NDArray step(std::span<const int64_t> ids);
  NDArray step(const std::vector<int64_t>& ids) { return step(std::span<const int64_t>(ids)); }
  /// The same with tokens of each sequence, which may differ in number. Each sequence has its rows in its
  /// own part of the states, and the mask hides what a shorter one does not have. One without tokens is
  /// left out: its row of the result is that of its last step, zeros where it had none. Throws a User
  /// error where lists differ in length and the model has no mask and positions as inputs, or was
  /// imported without OnnxOptions::each_sequence, and where no sequence has tokens.
  NDArray step_each(const std::vector<std::vector<int64_t>>& ids);
  /// Whether sequences may have different lengths: the model reads a mask and positions, and stores the
  /// rows of each sequence at places of its own.
  bool has_mask() const { return masked_; }
  /// Forgets all tokens.
  void reset();
  /// Forgets the tokens of a sequence, so that another one can begin in its place. Throws a User error
  /// where sequences may not differ in length.
  void reset(int64_t sequence);

  /// The bytes that a step of one token for each sequence must move with `length` tokens before it:
  /// weights, of tables the rows that are looked up, and the keys and values.
  double bytes_of_step(int64_t length) const;

 private:
  enum class Role : uint8_t { Ids, Mask, Positions, State, Length, Lengths, Tokens };
  /// A call of the network: the last `tokens` of the `n` columns of each sequence are read.
  struct Call {
    std::vector<int64_t> ids;  ///< (batch, n)
    std::vector<int64_t> tokens;
    int64_t n = 0, total = 0;
  };
  Role role_of(const OnnxModel& model, size_t input, const DecoderNames& names) const;
  void find_sizes(const OnnxModel& model, const DecoderNames& names);
  Extents extents(const Tensor& t, const Call& call) const;
  bool find_mask() const;
  int64_t check(const std::vector<std::vector<int64_t>>& ids) const;
  Call part(const std::vector<std::vector<int64_t>>& ids, int64_t begin, int64_t n,
            int64_t all) const;
  void find_memory();
  std::vector<NDArray> arrays_of(const Call& call) const;
  void write(size_t i, const Call& call, const NDArray& array) const;
  void write(const Call& call, const std::vector<NDArray>& arrays);
  NDArray run(const Call& call);
  void expect_after(const Call& call);
  NDArray result_of(const Call& call, const NDArray& logits);

  std::vector<Tensor> inputs_, outputs_;
  std::vector<Role> roles_;
  std::vector<NDArray> states_;                   ///< undefined for other inputs
  std::shared_ptr<generate::CallMemory> memory_;  ///< for a GPU
  bool ones_ = false;                             ///< the mask in `memory_` is all ones
  /// The arguments of the last call or, on a GPU, of that which is likely to come next.
  struct {
    int64_t n = 0, total = 0;
    std::vector<NDArray> all;
  } arrays_;
  std::vector<int64_t> counts_;  ///< tokens of each sequence
  NDArray last_;                 ///< the logits behind the last token of each that may be left out
  Var rows_, total_;             ///< the sizes of a call; undefined where the extent is constant
  bool masked_ = false;
  size_t logits_ = 0;
  int64_t batch_ = 1, capacity_ = 0, most_ = 1, fewest_ = 1, vocabulary_ = 0;
  double weight_bytes_ = 0, row_bytes_ = 0;
  NetworkKernel kernel_;
  Device device_;
};

}  // namespace heddle
