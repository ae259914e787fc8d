// Writes one kernel of a GPU program as CUDA C++.
//
// An expression becomes text. Names for values that are used several times, and vector loads,
// become lines in front of the statement. Arms of selects are lazy: such lines of an arm stay in
// that arm, which then becomes a branch.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/cuda/byte_quotient.h"
#include "codegen/cuda/index.h"
#include "codegen/cuda/kernel_facts.h"
#include "codegen/cuda/ops.h"
#include "codegen/cuda/text/names.h"
#include "codegen/cuda/text/text.h"
#include "codegen/cuda/votes.h"
#include "heddle/ir/simplify.h"
#include "heddle/lower/gpu_program.h"

namespace heddle::cuda {

/// The type of the parameter for a size, with a blank behind it.
std::string size_type(const Var& size);

class KernelWriter {
 public:
  /// `launch_threads`: of a block of the launch that the kernel is a part of (GpuKernel::parts); 0:
  /// it is a launch of its own.
  KernelWriter(const GpuKernel& kernel, Prelude& prelude, int64_t launch_threads = 0);
  std::string run();
  /// The types of the parameters for the args, known after run().
  const std::vector<std::string>& parameter_types() const { return parameter_types_; }
  /// The blocks that a multiprocessor runs at a time, which __launch_bounds__ is given; 0: any.
  int64_t blocks_of_sm() const;

 private:
  /// The place and the name of a buffer.
  struct Storage {
    std::string name;
    Scope scope = Scope::Argument;
    int per_word = 0;     ///< elements in each word; 0: an array of elements
    bool single = false;  ///< a variable, not an array
  };

  // ---- kernel_writer.cpp ----
  std::string signature();
  std::string head() const;
  void bind_grid();
  std::string grid_index(bool of_threads, int dim) const;
  std::string part_index(bool of_threads, int dim) const;
  int64_t block_threads() const { return kernel_.block[0] * kernel_.block[1] * kernel_.block[2]; }
  void begin_cluster();
  [[noreturn]] void fail(const std::string& what) const;

  // ---- statements.cpp ----
  void line(const std::string& text);
  /// Writes `head` {, and the statement. The caller writes the closing brace.
  void block(const std::string& head, const Stmt& body);
  bool is_uniform(const Expr& e) const;
  void statement(const Stmt& s);
  void loop(const For& f);
  void grid_loop(const For& f);
  bool parts_of_warp(size_t dim) const;
  std::string mask_of_row() const;
  void serial_loop(const For& f);
  void allocate(const Allocate& a);
  int64_t shared_offset(const Buffer& b) const;
  void let(const Let& first);
  void define(const Let& l);
  void branch(const If& s);
  void sync(const Sync& s);
  void tile_op(const TileOp& t);
  void load_matrix(const TileOp& t, const tile::LoadMatrix& load);
  void mma(const TileOp& t, const tile::Mma& product);
  Text tile_operand(const TileOperand& o);
  /// Writes the lines that the expressions of the statement need, then forgets them.
  void flush();

  // ---- voted_loop.cpp ----
  Expr vote_on(const For& f) const;
  void voted_loop(const For& f, const Expr& vote);
  /// Names of a vote: the lanes that take part, their number, the first iteration of the round, and
  /// what a lane has found, a bit for each iteration that it tests.
  struct Vote {
    std::string lanes, step, first, found;
  };
  bool is_tested_ahead(const For& f) const;
  void tested_loop(const For& f);
  void run_found(const For& f, const Vote& v, const Stmt& body);
  void open(const std::string& head);
  void close(int scopes);

  // ---- group_ops.cpp ----
  void pair_loop(const For& f);
  void group_op(const TileOp& t);
  std::string map_parameters(const std::string& gap);
  void prefetch_maps();
  std::string shared_operand(const TileOperand& o);
  void bulk_load(const TileOp& t, const tile::BulkLoad& load);
  void bulk_store(const TileOp& t);
  void group_mma(const TileOp& t, const tile::GroupMma& product);

  // ---- stores.cpp ----
  void store(const Store& s);
  void store_combined(const Store& s, const Storage& to, const Expr& index, int lanes);
  void store_in_cluster(const Store& s, const Storage& to, const std::vector<Text>& values);
  void store_run(const Store& s, const Storage& to, const std::vector<Text>& values);
  bool store_ahead(const Store& s, const Storage& to);
  void store_words(const Store& s, const Storage& to, const std::vector<Text>& values);
  void store_element(const Store& s, const Storage& to, const Text& index, const Text& value);
  /// Returns whether it was possible: the value is a plain copy in pieces of 4, 8 or 16 bytes.
  bool store_async(const Store& s, const Storage& to, int lanes);
  /// The lanes as one vector, or as the 32-bit word that holds them.
  std::string packed(DataType t, const std::vector<Text>& lanes, size_t begin, size_t count);

  // ---- expressions.cpp ----
  /// Begins a statement with these expressions: counts how often each part is used. `eager`: loads
  /// that stay inside of their arrays do not wait for conditions.
  void begin(const std::vector<Expr>& roots, bool eager = false);
  struct Use;
  const Use& count(const Expr& e, int times);
  void count_body(const Stmt& s);
  /// The value of a scalar, or of one lane of a vector.
  Text value(const Expr& e, int lane = 0);
  Text fresh(const Expr& e, int lane);
  Text variable(const VarNode* v, int lane) const;
  Text operation(const Expr& e, int lane);
  Text unrounded(const Expr& e, int lane);
  Text byte_quotient(const ByteQuotient& q, DataType t, int lane);
  Text quotient_as_f32(const QuotientAsF32& q, int lane);
  Text integer_as_f32(const Expr& e, int lane);
  Text operand(const Expr& x, int lane);
  Text select(const Expr& e, int lane);
  Text condition_of(const Select& s, int lane);
  bool is_pure(const Expr& e) const;
  void name_common(const Select& s, int lane);
  Text logical(const Binary& b, int lane);
  Text shuffle(const Shuffle& s);
  IntFacts facts_of(const Expr& e, const Expr& left, const Expr& right);
  Interval range(const Expr& e);
  std::string value_type_of(const Expr& e, const Text& t) const;
  Text named(const Expr& e, const Text& t, const char* stem);

  // ---- few_bits.cpp ----
  /// Of a word: bits shift to shift + bits - 1, less `zero` (undefined: 0), the same for all lanes.
  struct FewBits {
    Text word;
    int shift = 0, bits = 0;
    bool is_signed = false;
    Expr zero;
  };
  std::optional<FewBits> few_bits(const Expr& e, int lane);
  Text zero_of(const FewBits& x, int64_t exponent);
  std::optional<Text> few_bits_as_f32(const Expr& e, int lane);
  std::optional<Text> scaled_few_bits(const Binary& b, DataType t, int lane);

  // ---- loads.cpp ----
  Text load(const Expr& e, int lane);
  bool load_vector(const Expr& e);
  std::vector<std::string> words_of(const Storage& from, const Ramp& run, Chunk c, DataType t);
  Text element(const Storage& from, DataType t, const Expr& index, int lane);
  const Storage& storage_of(const Buffer& b) const;
  /// The only index of an access.
  const Expr& flat(const Buffer& b, const std::vector<Expr>& indices) const;
  /// The run of neighbouring elements that an index describes (a Ramp of stride 1), or null.
  static const Ramp* run_of(const Expr& index);
  /// name + index, as an address.
  std::string address(const Storage& s, const Text& index) const;
  Text index_at(const Ramp& run, int offset);

  /// Computed values that lines before the current statement, or before the value of the current
  /// arm, have named.
  struct Key {
    Expr e;
    int lane;
    Rounding rounding;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return static_cast<size_t>(k.e->hash) * 31 + static_cast<size_t>(k.lane);
    }
  };
  struct KeyEqual {
    bool operator()(const Key& a, const Key& b) const {
      return a.lane == b.lane && a.rounding == b.rounding && equal(a.e, b.e);
    }
  };
  /// A byte of a loaded word.
  struct WordPart {
    std::string word;
    int shift;
  };
  struct Frame {
    int outer;  ///< the frame around it; -1: none
    int depth;
    std::string lines;
    std::unordered_map<Key, Text, KeyHash, KeyEqual> named;
    std::unordered_map<Key, WordPart, KeyHash, KeyEqual> words = {};  ///< of bytes among `named`
  };
  struct Arm {
    std::vector<Text> lanes;
    std::string lines;
  };
  Arm arm(const Expr& e, int first_lane, int lanes);
  const Text* find_named(const Key& key) const;
  const WordPart* word_of(const Key& key) const;
  void remember(const Key& key, const Text& t) { frames_[frame_].named.emplace(key, t); }
  void before(const std::string& text);
  Text branches(const Expr& e, const Text& condition, const Arm& on_true, const Arm& on_false,
                int first_lane);

  struct ExprHash {
    size_t operator()(const Expr& e) const { return static_cast<size_t>(e->hash); }
  };
  struct ExprEqual {
    bool operator()(const Expr& a, const Expr& b) const { return equal(a, b); }
  };

  const GpuKernel& kernel_;
  const int64_t launch_threads_;
  Prelude& prelude_;
  Ops ops_;
  const KernelFacts facts_;
  Names names_;
  std::string out_;
  int indent_ = 1;
  Ranges ranges_;
  Divisors divisors_;
  std::unordered_map<const VarNode*, std::vector<Text>> vars_;  ///< a text per lane
  std::unordered_map<const BufferNode*, Storage> storage_;
  std::optional<Var> rank_;      ///< the place of the block in its pair
  std::string part_block_ = {};  ///< of a part of a launch: the name of its block's number
  std::vector<std::string> parameter_types_ = {};
  std::vector<std::string> map_names_;  ///< names of the kernel's tensor maps
  /// In a cluster: the counter of arrivals of each AsyncWait, and the index of the next one.
  std::string arrivals_;
  int next_arrival_ = 0;
  std::string warp_mask_ = "0xffffffffu";  ///< the lanes of a warp that run the current statement
  std::unordered_set<const VarNode*> uniform_;  ///< variables that are equal in all threads
  WarpFacts warp_ = {};
  /// Names for invariant values in the open C++ scopes, outermost first.
  std::vector<std::unordered_map<Key, Text, KeyHash, KeyEqual>> scopes_;

  // The uses of a part of the current statement.
  struct Use {
    int times = 0;
    bool pure = true;      ///< neither loads nor shuffles: does not change with memory
    bool anywhere = true;  ///< it may be computed where its value is not needed
  };
  bool at_once_ = false;  ///< all of a condition is evaluated, without branches
  bool eager_ = false;  ///< lazy parts share so many nodes that loads are done anywhere where that
                        ///< is possible
  std::unordered_map<Expr, Use, ExprHash, ExprEqual> uses_;
  std::unordered_map<Expr, Interval, ExprHash, ExprEqual> known_ranges_;
  std::vector<Frame> frames_;  ///< the frame of the statement, then those of its arms
  int frame_ = 0;              ///< index of the current frame
  Rounding rounding_ = Rounding::Loose;
  bool per_lane_ = false;  ///< inside an arm that some lanes do not take: no vector loads
};

}  // namespace heddle::cuda
