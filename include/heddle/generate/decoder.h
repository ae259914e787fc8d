// A language model that keeps the keys and values of what it has read.
//
//   OnnxModel model = last_logits(import_onnx("gpt2.onnx", decoder_options("gpt2.onnx")));
//   Decoder decoder(model, Network(model.outputs, Target::host(), {}, {}, model.updates));
//   NDArray logits = decoder.step({15496, 11, 995});  // behind the last token
//
// generation.h draws tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/generate/sampling.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"

namespace heddle {

namespace generate {
class Blocks;
class CallMemory;
}  // namespace generate

/// The names of inputs and outputs of a file that a decoder gives and reads. Inputs that a file
/// does not have are left out.
struct DecoderNames {
  std::string ids = "input_ids";  ///< (batch, n): tokens
  /// (batch, total): 1 for each token, 0 for what fills up a shorter sequence
  std::string mask = "attention_mask";
  std::string positions = "position_ids";  ///< (batch, n)
  std::string lasts = "seqlens_k";         ///< (batch): the position of the last token of each
  /// (batch, n, vocabulary), or (batch, vocabulary) of the last token (last_logits), of f32.
  std::string logits = "logits";
  // Those of with_draws().
  std::string streams = "draw:streams";                    ///< (batch): stream_of() each draw
  std::string temperature = "draw:temperature";            ///< (1)
  std::string top_k = "draw:top_k", top_p = "draw:top_p";  ///< (1)
  std::string token = "draw:token";                        ///< (batch): the tokens that are drawn
};

/// The model with the logits behind the last token of a call, (batch, vocabulary), in the place of
/// those behind each: their product is computed for one row. Throws a User error where `logits` is
/// no output of rank 3.
OnnxModel last_logits(OnnxModel model, const std::string& logits = "logits");

/// The model of last_logits() with draw() (sampling.h) of its logits as another output, the tokens
/// that come next, and the inputs of that; with `limits` top_k and top_p are among them, which
/// takes nine more kernels. A Generation (generation.h) on a GPU then copies tokens and no logits
/// to the CPU, and puts the next step into the stream before these are there. Throws a User error
/// where the logits have another rank than 2.
OnnxModel with_draws(OnnxModel model, const DecoderNames& names = {}, bool limits = false);

class Generation;

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
  int64_t tokens(int64_t sequence) const;
  int64_t vocabulary() const { return vocabulary_; }
  /// Of a model with OnnxOptions::blocks: how many blocks no sequence has, else 0. A sequence takes
  /// one where its rows need one more, and has it until it is reset.
  int64_t free_blocks() const;
  /// The blocks that a sequence has, in the order of its rows.
  std::vector<int64_t> blocks_of(int64_t sequence) const;
  const NetworkKernel& kernel() const { return kernel_; }

  /// Reads the tokens, `ids` of (batch, n), and returns the logits behind the last of each
  /// sequence: (batch, vocabulary) of f32, on the CPU. The array is the caller's: later steps leave
  /// it alone, and use its memory again once no handle of it is left. Longer lists are several
  /// calls of the network. On a GPU the next step is prepared while this one runs: that of one more
  /// token for each sequence that reads now. Another may come in its place. Throws a User error,
  /// and reads nothing, where the capacity or the number of free blocks is too small and for a
  /// token outside of the vocabulary.
  NDArray step(std::span<const int64_t> ids);
  NDArray step(const std::vector<int64_t>& ids) { return step(std::span<const int64_t>(ids)); }
  /// The same with tokens of each sequence, which may differ in number. Each sequence has its rows
  /// in its own part of the states, and the mask hides what a shorter one does not have. One
  /// without tokens is left out: its row of the result is that of its last step, zeros where it had
  /// none. Throws a User error where lists differ in length and the model has no mask and positions
  /// as inputs, or was imported without OnnxOptions::each_sequence, and where no sequence has
  /// tokens.
  NDArray step_each(const std::vector<std::vector<int64_t>>& ids);
  /// The same in one call of the network, with the logits behind each token: (batch, n,
  /// vocabulary), where n is the length of the longest list. Those of a shorter one are the last,
  /// and what is before them says nothing. Throws what step_each throws, and a User error for more
  /// tokens than one call reads and where the model has the logits behind the last token alone
  /// (last_logits).
  NDArray step_rows(const std::vector<std::vector<int64_t>>& ids);
  /// Takes back the last tokens that a sequence has read. Throws a User error where it has not as
  /// many, and where sequences may not differ in length.
  void forget(int64_t sequence, int64_t tokens);
  /// Copies on the CPU of the inputs of the call that the next step makes of these tokens, in the
  /// order of the model: states are as they are before it. Throws what step_each throws, and a User
  /// error for more tokens than one call reads.
  std::vector<NDArray> inputs_of(const std::vector<std::vector<int64_t>>& ids) const;
  /// Whether sequences may have different lengths: the model reads a mask and positions, and stores
  /// the rows of each sequence at places of its own.
  bool has_mask() const { return masked_; }
  /// Whether the network of a step draws tokens so: the model is of with_draws(), and has limits
  /// where top_k or top_p is asked for.
  bool draws(const Sampling& how) const;
  /// Forgets all tokens.
  void reset();
  /// Forgets the tokens of a sequence, so that another one can begin in its place. Throws a User
  /// error where sequences may not differ in length.
  void reset(int64_t sequence);

  /// The bytes that a step of one token for each sequence must move with `length` tokens before it:
  /// weights, of tables the rows that are looked up, and the keys and values.
  double bytes_of_step(int64_t length) const;

 private:
  friend class Generation;
  enum class Role : uint8_t {
    Ids,
    Mask,
    Positions,
    State,
    Length,
    Lengths,
    Lasts,
    Tokens,
    Table,
    Streams,
    Temperature,
    TopK,
    TopP
  };
  using Lists = std::vector<std::vector<int64_t>>;
  /// How tokens are drawn behind a call.
  struct Draw {
    Sampling how = {};
    std::vector<uint64_t> numbers = {};  ///< the number of the draw of each sequence
    bool fed = false;  ///< the call reads what the one before it drew, in the place of its ids
  };
  /// A call of the network: the last `tokens` of the `n` columns of each sequence are read.
  struct Call {
    std::vector<int64_t> ids;  ///< (batch, n)
    std::vector<int64_t> tokens;
    int64_t n = 0, total = 0;
    Draw draw = {};
  };
  /// A step whose tokens are not on the CPU yet.
  struct Started {
    NDArray tokens;
    std::vector<int64_t> ahead;  ///< tokens that each sequence reads before they are known
  };
  // For a Generation, which starts two steps at most before it finishes the first of them.
  void start(const Lists& ids, const Draw& draw);
  std::vector<int64_t> finish();
  bool runs_ahead(const Sampling& how) const { return memory_ && draws(how); }
  /// How many tokens more, up to `wanted`, all the sequences that `reads` names have room for.
  int64_t room(const std::vector<bool>& reads, int64_t wanted) const;
  void take_back(size_t sequence);
  void take_back(size_t sequence, int64_t tokens) { counts_[sequence] -= tokens; }
  void drop_started();
  void release();
  Role role_of(const OnnxModel& model, size_t input, const DecoderNames& names) const;
  void find_sizes(const OnnxModel& model, const DecoderNames& names);
  Extents extents(const Tensor& t, const Call& call) const;
  bool find_mask(bool own_positions) const;
  void find_blocks(const OnnxModel& model);
  int64_t check(const Lists& ids) const;
  void check_is_one_call(int64_t n) const;
  void check_has_rows() const;
  int64_t check_of_sequence(int64_t sequence, const std::string& what) const;
  std::vector<int64_t> rows_with(const Lists& ids) const;
  Call part(const Lists& ids, int64_t begin, int64_t n, int64_t all) const;
  void find_memory();
  std::vector<NDArray> arrays_of(const Call& call, bool next = false) const;
  std::vector<NDArray> arguments(bool fed) const;
  void write(size_t i, const Call& call, const NDArray& array) const;
  void write(const Call& call, const std::vector<NDArray>& arrays);
  void run(const Call& call);
  Call read(const Lists& ids, const Draw& draw);
  void expect_after(const Call& call);
  NDArray logits_of(const Call& call);
  NDArray logits_behind(const Lists& ids);
  NDArray logits_of_rows(const Lists& ids);

  std::vector<Tensor> inputs_, outputs_;
  std::vector<Role> roles_;
  std::vector<NDArray> states_;                   ///< undefined for other inputs
  std::shared_ptr<generate::CallMemory> memory_;  ///< for a GPU
  std::shared_ptr<generate::Blocks> blocks_;      ///< where states are blocks
  bool ones_ = false;                             ///< the mask in `memory_` is all ones
  /// The arguments of the last call or, on a GPU, of that which is likely to come next.
  std::vector<NDArray> arrays_;
  std::vector<int64_t> counts_;  ///< tokens of each sequence
  NDArray last_;                 ///< the logits behind the last token of each that may be left out
  Var rows_, total_;             ///< the sizes of a call; undefined where the extent is constant
  bool masked_ = false;
  size_t ids_ = 0, logits_ = 0;
  std::optional<size_t> token_;  ///< the output of with_draws()
  NDArray tokens_[2];            ///< what calls drew, in turns
  size_t turn_ = 0;
  std::vector<Started> started_;            ///< the first one first
  const Generation* generation_ = nullptr;  ///< that may go on
  int64_t batch_ = 1, capacity_ = 0, most_ = 1, fewest_ = 1, vocabulary_ = 0;
  double weight_bytes_ = 0, row_bytes_ = 0;
  NetworkKernel kernel_;
  Device device_;
};

}  // namespace heddle
