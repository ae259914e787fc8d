// Heddle's loop IR to LLVM IR, one LoweredFunction at a time.
//
// Buffers become pointers (an argument, a workspace, a stack array) or, for a Local buffer whose
// every access is at a constant place, one SSA value per accessed chunk. A parallel loop becomes a
// function of its own that heddle_parallel_for calls.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/llvm/nests.h"
#include "codegen/llvm/ops.h"
#include "heddle/codegen/llvm.h"
#include "heddle/ir/simplify.h"
#include "heddle/ir/stmt.h"
#include "instruction/narrow_terms.h"
#include "instruction/registered_nest.h"
#include "instruction/tile_product.h"
#include "ir/affine_lanes.h"
#include "llvm/IR/Module.h"

namespace heddle::codegen {

using instructions::NarrowFactor;
using instructions::NarrowTerm;
using instructions::TileConfig;
using instructions::TileProduct;

/// `lanes` elements from `begin` on that are held in one register value.
struct Chunk {
  int64_t begin = 0;
  int lanes = 1;
  llvm::AllocaInst* slot = nullptr;
  bool covers(int64_t from, int count) const {
    return begin <= from && from + count <= begin + lanes;
  }
};

/// The chunks of `buffer` that can be held in registers. nullopt where `body` accesses it at
/// indices that are not constant or that overlap, or from a parallel loop.
std::optional<std::vector<Chunk>> plan_chunks(const Buffer& buffer, const Stmt& body);

/// Replaces stores whose number of lanes is large and not a power of two by pieces that fill
/// registers: 24 f32 lanes are three AVX2 registers and not a vector of 32. Code is generated from
/// the result.
Stmt split_lanes(const Stmt& s, int vector_bytes);
std::vector<LoweredFunction> split_lanes(std::vector<LoweredFunction> functions, int vector_bytes);

/// index == base + offsets[lane], in every lane.
struct LanePattern {
  Expr base;
  std::vector<int64_t> offsets;
};
/// The positions of `count` lanes with a constant stride.
LanePattern pattern_of(const AffineLanes& lanes, int count);
std::optional<LanePattern> as_lane_pattern(const Expr& index, const Ranges& ranges);

/// Lanes [begin, begin + count) of `e`, which has no vector variable.
Expr slice_lanes(const Expr& e, int begin, int count);

bool contains_load(const Expr& e);

class Generator {
 public:
  /// `calls` are nests that are called and not generated in place, outside of other nests.
  Generator(llvm::Module& module, const Machine& machine, const NestCalls& calls);

  /// Adds `int name(void* const* args)`. The sizes of the function are i64 values in `args`, after
  /// the pointers.
  void add(const LoweredFunction& function, const std::string& name);
  /// The expected instructions of all functions added so far.
  const std::vector<ExpectedInstruction>& expected() const { return expected_; }
  /// For each of them, why the first store that did not become it did not.
  const std::vector<std::string>& why_missed() const { return why_missed_; }

 private:
  struct Storage {
    llvm::Value* base = nullptr;  ///< null for a buffer that is held in chunks
    llvm::MDNode* own_scope = nullptr;
    llvm::MDNode* other_scopes = nullptr;
    std::vector<Chunk> chunks;
  };
  /// The state of the current LLVM function.
  struct Frame {
    llvm::Function* function = nullptr;
    llvm::BasicBlock* entry = nullptr;  ///< holds the allocas; its branch comes last
    std::unordered_map<const VarNode*, llvm::Value*> vars;
    std::unordered_map<const VarNode*, int>
        depth;  ///< depth of the loop in which a variable changes
    std::unordered_map<const BufferNode*, Storage> buffers;
    std::vector<llvm::Value*> workspaces;  ///< freed before the function returns
    llvm::Value* status = nullptr;         ///< where a parallel body reports a failure
    int loops = 0;
    int64_t stack_bytes = 0;
    bool parallel_body = false;
    bool nontemporal = false;
    std::optional<TileConfig> tiles;  ///< the configuration of the tile registers
  };

  // ---- functions.cpp ----
  llvm::Function* begin_function(llvm::FunctionType* type, const std::string& name,
                                 llvm::GlobalValue::LinkageTypes linkage);
  void end_function();
  void make_alias_scopes(const LoweredFunction& function);
  llvm::FunctionCallee runtime_function(const char* name, llvm::FunctionType* type);
  llvm::AllocaInst* entry_alloca(llvm::Type* type, llvm::Align align, const std::string& name);
  void emit_failure(llvm::Value* failed);
  void emit_leave(int status);

  // ---- statements.cpp ----
  void emit(const Stmt& s);
  void emit_for(const For& loop);
  void emit_loop(const For& loop, llvm::Value* begin, llvm::Value* end, bool maybe_empty);
  void emit_loop(const For& loop, llvm::Value* begin, llvm::Value* end, bool maybe_empty,
                 FunctionRef<void()> body);
  void emit_if(const If& s);
  void emit_let(const Let& s);
  void emit_allocate(const Allocate& s);
  llvm::Value* emit_bytes(const Buffer& buffer);
  void bind(const Var& v, llvm::Value* value, Interval range);
  void unbind(const Var& v);

  // ---- transposed_loads.cpp ----
  /// The number of `stmts` from `from` on, prefetches among them, that were emitted as one
  /// transposed square; 0: none.
  size_t emit_transposed(const std::vector<Stmt>& stmts, size_t from);
  void emit_prefetch_rows(const Prefetch& s, const Load& load, int64_t stride);

  // ---- parallel.cpp ----
  void emit_parallel(const For& loop);
  /// The values from outside that the body of a parallel loop uses.
  struct Captures {
    std::vector<const VarNode*> vars;
    std::vector<const BufferNode*> buffers;  ///< those in memory
    bool may_fail = false;                   ///< the body allocates
  };
  Captures captures_of(const Stmt& body);
  void emit_shared(const For& loop, const Captures& captures, llvm::Function* body,
                   llvm::Value* slot, llvm::Value* extent);
  /// Makes the context on the caller's stack: a status, followed by the captured values except
  /// constants.
  llvm::AllocaInst* emit_context(const Captures& captures);
  llvm::Function* emit_parallel_body(const For& loop, const Captures& captures,
                                     llvm::StructType* context_type);
  void emit_call(const NestCall& call);

  // ---- expressions.cpp ----
  llvm::Value* emit(const Expr& e);
  llvm::Value* emit_node(const Expr& e);
  llvm::Value* emit_constant(const Expr& e);
  llvm::Value* emit_ramp(const Ramp& r);
  llvm::Value* emit_binary(const Binary& e);
  llvm::Value* emit_lane_pattern(const LanePattern& pattern, DataType dtype);
  llvm::Value* emit_select(const Expr& condition, const Expr& on_true, const Expr& on_false);
  llvm::Value* emit_branches(llvm::Value* condition, llvm::Type* type,
                             FunctionRef<llvm::Value*()> on_true,
                             FunctionRef<llvm::Value*()> on_false);
  llvm::Value* emit_masked(llvm::Value* mask, int lanes, const Expr& e);
  llvm::Value* emit_if_any_lane(const Expr& e);
  bool reads_memory(const Expr& e);
  bool reads_memory(const Expr& e, SeenNodes& seen);
  void emit_common(const Expr& on_true, const Expr& on_false);
  size_t memo_mark() const { return memo_log_.size(); }
  void memo_rewind(size_t mark);

  // ---- register_tables.cpp ----
  /// `e` as a table of its values that lanes take theirs from; null where it is no function of four bits.
  llvm::Value* emit_table(const Expr& e);
  /// Lanes whose lowest four bits are 16 numbers that lie near each other; null where they do not.
  llvm::Value* emit_bit_places(const Expr& number);

  // ---- dot_product.cpp ----
  llvm::Value* emit_dot_products(const Binary& e);
  llvm::Value* emit_dot(llvm::Value* sum, const NarrowFactor& a, const NarrowFactor& b, int size,
                        int members, int lanes);
  llvm::Value* emit_groups(const NarrowFactor& f, int size, int members, int lanes);
  llvm::Value* emit_group(const NarrowFactor& f, int size, int members);
  llvm::Value* emit_pairs(llvm::Value* sum, llvm::Value* x, llvm::Value* y, int lanes);
  llvm::Value* emit_bf16_pairs(llvm::Value* sum, llvm::Value* x, llvm::Value* y, int lanes);
  llvm::Value* add(llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_fours(llvm::Value* sum, llvm::Value* x, DataType tx, llvm::Value* y,
                          DataType ty, int lanes);
  llvm::Value* expand_fours(llvm::Value* x, DataType tx, llvm::Value* y, DataType ty, int lanes);
  const LlvmCall* dot_call(DataType wide, DataType a, DataType b, int size, int lanes) const;
  llvm::Value* emit_dot_call(const LlvmCall& call, llvm::Value* sum, llvm::Value* x, llvm::Value* y,
                             llvm::Type* type);
  bool has_dot(DataType a, DataType b, int size, int lanes) const;

  // ---- instruction_code.cpp ----
  /// Emits a nest that is a registered instruction, or sets what an instruction adds to.
  void emit_instruction(const For& loop);
  /// Emits the loops of a nest whose instruction the machine lacks.
  void emit_vectors(const For& nest);
  void emit_call_of(const MachineInstruction& instruction, const instructions::Unified& nest);

  // ---- tile_code.cpp ----
  /// The number of `stmts` from `from` on that were emitted as one product of tiles; 0: none.
  size_t emit_tiles(const std::vector<Stmt>& stmts, size_t from);
  void emit_tile_product(const TileProduct& p, bool from_zero);
  void emit_tile_steps(const TileProduct& p, size_t depth);
  void emit_tile_step(const TileProduct& p);
  llvm::Value* tile_address(const TileProduct& p, const Buffer& buffer, const Expr& at, int row,
                            int col);
  void configure_tiles(const TileConfig& config);
  bool begin_tiles(const Stmt& body);
  void end_tiles();

  // ---- addresses.cpp ----
  struct Term {
    Expr value;
    int64_t scale = 1;
    int depth = 0;
  };
  void flatten_index(const Expr& e, int64_t scale, std::vector<Term>& terms, int64_t& constant);
  int depth_of(const Expr& e);
  llvm::Value* address(const Storage& storage, DataType dtype, const Expr& index,
                       int64_t offset = 0);
  llvm::Value* advance(llvm::Value* pointer, DataType dtype, int64_t elements);
  llvm::Value* emit_index(const Expr& index);
  const Storage& storage_of(const Buffer& buffer);
  void annotate(llvm::Instruction* access, const Storage& storage);

  // ---- memory.cpp ----
  llvm::Value* emit_load(const Load& load);
  llvm::Value* load_scalar(const Storage& storage, DataType dtype, llvm::Value* pointer);
  llvm::Value* load_contiguous(const Storage& storage, DataType dtype, llvm::Value* pointer,
                               llvm::Value* mask);
  llvm::Value* load_strided(const Storage& storage, DataType dtype, const AffineLanes& lanes);
  llvm::Value* load_lanes(const Storage& storage, DataType dtype, const AffineLanes& lanes);
  llvm::Value* load_lanes_once(const Load& load, const AffineLanes& lanes);
  llvm::Value* load_pattern(const Storage& storage, DataType dtype, const LanePattern& pattern);
  llvm::Value* load_runs(const Storage& storage, DataType dtype, const LanePattern& pattern);
  llvm::Value* load_stretches(const Storage& storage, DataType dtype, const LanePattern& pattern);
  llvm::Value* gather(const Storage& storage, DataType dtype, const Expr& index);
  llvm::Value* load_chunk(const Storage& storage, DataType dtype, const Expr& index);
  bool has_masks(DataType dtype) const;
  llvm::Value* from_memory(llvm::Value* v, DataType dtype);
  llvm::Value* to_memory(llvm::Value* v, DataType dtype);
  void emit_store(const Store& s);
  /// Counts stores to `buffer` that were to become `instruction`, and did or not.
  void note_expected(const std::string& buffer, const std::string& instruction, bool found,
                     const std::string& why = {});
  /// Counts the store where its hints contain `hint`: it became that instruction, or not, and `why`.
  void note_expected(const Store& s, StoreHint hint, bool found, const std::string& why = {});
  void store_value(const Store& s, llvm::Value* value);
  void store_contiguous(const Storage& storage, DataType dtype, llvm::Value* pointer,
                        llvm::Value* value, bool nontemporal);
  void store_nontemporal(const Storage& storage, llvm::Value* pointer, llvm::Value* value,
                         llvm::Align align);
  void store_chunk(const Storage& storage, DataType dtype, const Expr& index, llvm::Value* value);
  void emit_prefetch(const Prefetch& s);

  // ---- masked_loads.cpp ----
  /// The load of a pattern in the lanes of `mask_`, without a gather; null where that needs one.
  llvm::Value* load_active(const Load& load, const LanePattern& pattern);
  /// Whether a load under a mask would be a gather.
  bool gathers(const Expr& e);
  /// Whether all that `e` reads is safe to read where `condition` was computed.
  bool reads_as(const Expr& e, const Expr& condition);
  llvm::Value* emit_uniform_part(const Expr& condition, const Expr& on_true, const Expr& on_false);

  // ---- masked_stores.cpp ----
  /// Neither loads nor stores in lanes where `condition` is false.
  void emit_masked_store(const Expr& condition, const Store& s);
  void store_masked(const Store& s, llvm::Value* value, llvm::Value* mask);

  llvm::LLVMContext& context() { return module_.getContext(); }
  llvm::BasicBlock* new_block(const char* name) {
    return llvm::BasicBlock::Create(context(), name, frame_.function);
  }
  llvm::Type* element_memory(DataType t) { return element_memory_type(context(), t); }
  llvm::Align element_align(DataType t) { return llvm::Align(t.element().bytes()); }

  llvm::Module& module_;
  const Machine& machine_;
  const NestCalls& calls_;
  Builder b_;
  Ops ops_;
  Frame frame_;
  Ranges ranges_;
  std::vector<ExpectedInstruction> expected_;
  std::vector<std::string> why_missed_;
  int dot_products_ = 0;  ///< emitted so far
  /// Why the sum of this store has no groups, and the last stores are no square.
  std::string why_no_dot_, why_no_square_;
  std::string name_;        ///< name of the function being added
  int parallel_loops_ = 0;  ///< number of its parallel loops so far
  std::unordered_map<const BufferNode*, std::pair<llvm::MDNode*, llvm::MDNode*>> alias_scopes_;
  std::unordered_set<const BufferNode*> written_;  ///< that the function stores to
  /// Loads by single lanes of buffers that are not written, and their values in block
  /// `lanes_in_`. LLVM does not see that the stores between leave such memory as it is.
  std::vector<std::pair<Expr, llvm::Value*>> loaded_lanes_;
  const llvm::BasicBlock* lanes_in_ = nullptr;
  /// The lanes in which loads may happen (<padded x i1>), or null for all.
  llvm::Value* mask_ = nullptr;
  bool in_index_ = false;
  /// Set for a statement whose lazy parts share so many nodes that it is computed whole where that
  /// is possible.
  bool eager_ = false;
  /// Values of the expressions of this statement, which are graphs and not trees. A lazily executed
  /// part removes the values that it added.
  std::unordered_map<const ExprNode*, llvm::Value*> memo_;
  std::vector<Expr> memo_log_;  ///< keeps the keys of memo_ alive
};

}  // namespace heddle::codegen
