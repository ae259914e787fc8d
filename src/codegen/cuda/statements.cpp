#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/ldmatrix_text.h"
#include "codegen/cuda/text/mma_text.h"
#include "codegen/cuda/text/types.h"

namespace heddle::cuda {
namespace {

constexpr const char* kAllLanes = "0xffffffffu";

/// The mask of the first `lanes` lanes of a warp, as text.
std::string lane_mask(int lanes) {
  std::string digits;
  for (uint32_t mask = (uint32_t{1} << lanes) - 1; mask != 0; mask >>= 4) {
    digits.insert(digits.begin(), "0123456789abcdef"[mask & 15]);
  }
  return "0x" + digits + "u";
}

}  // namespace

void KernelWriter::line(const std::string& text) {
  out_.append(static_cast<size_t>(indent_) * 2, ' ');
  out_ += text + "\n";
}

void KernelWriter::block(const std::string& head, const Stmt& body) {
  line(head);
  ++indent_;
  scopes_.emplace_back();
  statement(body);
  scopes_.pop_back();
  --indent_;
}

bool KernelWriter::is_uniform(const Expr& e) const {
  bool uniform = true;
  visit(e, [&](const Expr& x) {
    const VarNode* v = x.as<VarNode>();
    if (x.kind() == ExprKind::Load || (v && !uniform_.contains(v))) uniform = false;
  });
  return uniform;
}

void KernelWriter::flush() {
  out_ += frames_[0].lines;
  frames_[0].lines.clear();
}

void KernelWriter::statement(const Stmt& s) {
  if (!s) return;
  switch (s.kind()) {
    case StmtKind::For: return loop(*s.as<For>());
    case StmtKind::Store: return store(*s.as<Store>());
    case StmtKind::Allocate: return allocate(*s.as<Allocate>());
    case StmtKind::If: return branch(*s.as<If>());
    case StmtKind::Block:
      for (const Stmt& child : s.as<Block>()->stmts) statement(child);
      return;
    case StmtKind::Let: return let(*s.as<Let>());
    case StmtKind::Prefetch: {
      const Prefetch& p = *s.as<Prefetch>();
      begin({flat(p.buffer, p.indices)});
      before(prelude_.use("prefetch_l2") + "(" +
             address(storage_of(p.buffer), value(p.indices[0])) + ");");
      return flush();
    }
    case StmtKind::Sync: return sync(*s.as<Sync>());
    case StmtKind::TileOp: return tile_op(*s.as<TileOp>());
  }
}

// ---- loops ----

void KernelWriter::loop(const For& f) {
  switch (f.loop.binding) {
    case Binding::BlockX:
    case Binding::BlockY:
    case Binding::BlockZ:
      if (is_persistent(f.loop)) break;
      return grid_loop(f);
    case Binding::ThreadX:
    case Binding::ThreadY:
    case Binding::ThreadZ: return grid_loop(f);
    case Binding::PairX: return pair_loop(f);
    case Binding::Serial:
      if (const Expr vote = vote_on(f); vote.defined()) return voted_loop(f, vote);
      if (is_tested_ahead(f)) return tested_loop(f);
      return serial_loop(f);
    case Binding::SoftwarePipelined:
    case Binding::Vectorized:
    case Binding::Unrolled: return serial_loop(f);
    case Binding::Parallel:
    case Binding::Tensorized:
    case Binding::LastBlock: break;
  }
  fail(std::string("a ") + to_string(f.loop) + " loop over '" + f.var->name + "'");
}

// Whether the first dimension of the block is an aligned part of a warp, all of whose lanes take
// the same branch where dimension `dim` is cut.
bool KernelWriter::parts_of_warp(size_t dim) const {
  return dim > 0 && kernel_.block[0] < 32 && 32 % kernel_.block[0] == 0;
}

// The lanes that the first dimension of the block has beside this one.
std::string KernelWriter::mask_of_row() const {
  const int64_t lanes = kernel_.block[0];
  const std::string row =
      kernel_.block[2] > 1 ? "(ty + tz * " + std::to_string(kernel_.block[1]) + ")" : "ty";
  return lane_mask(static_cast<int>(lanes)) + " << (" + row + " * " + std::to_string(lanes) +
         " & 31)";
}

void KernelWriter::grid_loop(const For& f) {
  const bool thread = is_thread(f.loop);
  const auto dim = static_cast<size_t>(grid_dim(f.loop));
  int64_t all = (thread ? kernel_.block : kernel_.grid)[dim];
  if (dim == 0) all = thread ? all * kernel_.cluster : all / kernel_.cluster;
  const Text name{std::string(thread ? "t" : "b") + "xyz"[dim], kAtom};
  const int64_t* extent = as_int(f.extent);
  if (extent && *extent > all) {
    fail("the loop over '" + f.var->name + "' has " + std::to_string(*extent) +
         " iterations, and the " + (thread ? "block " : "grid ") + std::to_string(all));
  }
  const int64_t last = (extent ? *extent : all) - 1;
  vars_[f.var.get()] = {name};
  ranges_.set(f.var, {0, last});
  if (!thread) uniform_.insert(f.var.get());
  // Warps are neighbours along the first dimension where it has whole ones.
  if (!thread || (dim > 0 && kernel_.block[0] % 32 == 0)) warp_.same.insert(f.var.get());
  if (thread && dim == 0 && kernel_.block[0] % 32 == 0) warp_.lanes.insert(f.var.get());
  const Expr& of = thread ? Expr() : kernel_.grid_of[dim];
  const bool every =
      of.defined() ? kernel_.cluster == 1 && equal(of, f.extent) : extent && *extent == all;
  if (every) {
    statement(f.body);
  } else {
    begin({f.extent});
    const std::string limit = value(f.extent).at(kShift);
    flush();
    const std::string outer = warp_mask_;
    // Whole warps take the same branch where the first dimension is cut at a multiple of 32, and
    // where it is a multiple of 32 and another dimension is cut.
    const bool whole =
        !thread || (kernel_.block[0] % 32 == 0 && (dim > 0 || (extent && *extent % 32 == 0)));
    const bool first_lanes = dim == 0 && extent && *extent < 32 && outer == kAllLanes &&
                             kernel_.block[1] * kernel_.block[2] == 1;
    if (!whole) {
      warp_mask_ = first_lanes          ? lane_mask(static_cast<int>(*extent))
                   : parts_of_warp(dim) ? mask_of_row()
                                        : "__activemask()";
    }
    block("if (" + name.s + " < " + limit + ") {", f.body);
    line("}");
    warp_mask_ = outer;
  }
  ranges_.erase(f.var);
}

void KernelWriter::serial_loop(const For& f) {
  const int64_t* extent = as_int(f.extent);
  const Interval range = range_of(f.extent, ranges_);
  const Interval values{0, range.max == Interval::kPosInf ? range.max : range.max - 1};
  const bool wide = !fits_32_bits(range);
  const std::string name = names_.unique(f.var->name);
  ranges_.set(f.var, values);
  if (is_uniform(f.extent)) uniform_.insert(f.var.get());
  if (warp_.is_same(f.extent)) warp_.same.insert(f.var.get());
  if (extent && *extent == 1) {
    line("const int " + name + " = 0;");
    vars_[f.var.get()] = {{name, kAtom}};
    divisors_[f.var.get()] = 16;
    return statement(f.body);
  }
  begin({f.extent});
  Text limit = value(f.extent);
  if (!is_identifier(limit.s) && !extent) limit = named(f.extent, limit, "n");
  flush();
  vars_[f.var.get()] = {{name, kAtom, wide}};
  const bool unrolled = f.loop == LoopKind::Unrolled || facts_.register_loops.contains(&f);
  line(unrolled ? "#pragma unroll" : "#pragma unroll 1");
  block("for (" + std::string(wide ? "long long " : "int ") + name + " = 0; " + name + " < " +
            limit.at(kShift) + "; ++" + name + ") {",
        f.body);
  line("}");
  ranges_.erase(f.var);
}

// ---- scopes ----

void KernelWriter::allocate(const Allocate& a) {
  const Buffer& b = a.buffer;
  Storage s{names_.unique(b->name), b->scope};
  const int64_t n = b.num_elements();
  switch (b->scope) {
    case Scope::Local:
      if (facts_.words.contains(b.get())) {
        s.per_word = elements_per_word(b->dtype);
        const int64_t words = (n + s.per_word - 1) / s.per_word;
        line("unsigned " + s.name + "[" + std::to_string(words) + "];  // " + to_string(b->dtype));
      } else {
        s.single = n == 1;
        line(value_type(b->dtype) + " " + s.name + (s.single ? "" : "[" + std::to_string(n) + "]") +
             ";");
      }
      break;
    case Scope::Shared: {
      const std::string type = memory_type(b->dtype);
      const int64_t offset = shared_offset(b);
      const std::string at = offset == 0 ? "smem" : "(smem + " + std::to_string(offset) + ")";
      line(type + "* const " + s.name + " = (" + type + "*)" + at + ";  // [" + std::to_string(n) +
           "]");
      break;
    }
    case Scope::Argument:
    case Scope::Global: fail("the buffer '" + b->name + "' is allocated, and is no argument");
  }
  storage_[b.get()] = s;
  statement(a.body);
}

int64_t KernelWriter::shared_offset(const Buffer& b) const {
  for (const GpuKernel::SharedSlot& slot : kernel_.shared) {
    if (!(slot.buffer == b)) continue;
    const int64_t end = slot.offset + b.num_elements() * b->dtype.bytes();
    if (slot.offset % 16 != 0 || end > kernel_.shared_bytes) {
      fail("'" + b->name + "' lies at byte " + std::to_string(slot.offset) + " to " +
           std::to_string(end) + " of " + std::to_string(kernel_.shared_bytes) +
           " bytes of shared memory");
    }
    return slot.offset;
  }
  fail("'" + b->name + "' has no place in shared memory");
}

// Lets directly inside each other are written as one statement, so that what their values share is
// computed once: nothing is stored between them. The parts of a pair are loaded together: an index
// that waits for the comparison of values would take the latency of memory once more.
void KernelWriter::let(const Let& first) {
  std::vector<const Let*> lets;
  std::vector<Expr> values;
  for (const Let* l = &first; l; l = l->body.as<Let>()) {
    lets.push_back(l);
    values.push_back(l->value);
  }
  begin(values, lets.size() > 1);
  for (const Let* l : lets) define(*l);
  flush();
  statement(lets.back()->body);
  for (const Let* l : lets) {
    if (l->value.dtype() == i64) ranges_.erase(l->var);
  }
}

void KernelWriter::define(const Let& l) {
  const DataType t = l.value.dtype();
  std::vector<Text> texts;
  for (int lane = 0; lane < t.lanes; ++lane) {
    const Text x = value(l.value, lane);
    const std::string name = names_.unique(l.var->name);
    before("const " + value_type_of(l.value, x) + " " + name + " = " + x.s + ";");
    texts.push_back({name, kAtom, x.wide});
  }
  if (t == i64) {
    ranges_.set(l.var, range_of(l.value, ranges_));
    divisors_[l.var.get()] = known_divisor(l.value, divisors_);
  }
  vars_[l.var.get()] = std::move(texts);
}

void KernelWriter::branch(const If& s) {
  begin({s.condition});
  count_body(s.then_body);
  const Text condition = value(s.condition);
  flush();
  const std::string outer = warp_mask_;
  if (!is_uniform(s.condition)) warp_mask_ = "__activemask()";
  block("if (" + condition.s + ") {", s.then_body);
  if (s.else_body) block("} else {", s.else_body);
  line("}");
  warp_mask_ = outer;
}

// ---- threads and warps ----

void KernelWriter::sync(const Sync& s) {
  switch (s.sync) {
    case SyncKind::Block:
      // The other threads of a launch of several parts have left.
      if (launch_threads_ > block_threads())
        return line(prelude_.use("part_sync") + "<" + std::to_string(block_threads()) + ">();");
      return line(kernel_.cluster * kernel_.pair > 1 ? prelude_.use("cluster_sync") + "();"
                                                     : "__syncthreads();");
    case SyncKind::Started: return line(prelude_.use("cluster_wait") + "();");
    case SyncKind::Warp: return line("__syncwarp();");
    case SyncKind::AsyncCommit: return line(prelude_.use("cp_async_commit") + "();");
    case SyncKind::AsyncWait:
      if (kernel_.cluster > 1) {
        return line(prelude_.use("wait_for_arrivals") + "(" + arrivals_ + " + " +
                    std::to_string(next_arrival_++) + ");");
      }
      return line(prelude_.use("cp_async_wait") + "<" + std::to_string(s.pending) + ">();");
    case SyncKind::GroupFence: return line(prelude_.use("wgmma_fence") + "();");
    case SyncKind::GroupCommit: return line(prelude_.use("wgmma_commit") + "();");
    case SyncKind::GridWait: return line(prelude_.use("grid_wait") + "();");
    case SyncKind::Registers:
      return line(prelude_.use(s.pending < 0 ? "give_registers" : "take_registers") + "<" +
                  std::to_string(std::abs(s.pending)) + ">();");
    case SyncKind::WarpGroup: return line(prelude_.use("group_sync") + "();");
    case SyncKind::StoreFence: return line(prelude_.use("bulk_store_fence") + "();");
    case SyncKind::StoreCommit: return line(prelude_.use("bulk_store_commit") + "();");
    case SyncKind::StoreWait:
      return line(prelude_.use("bulk_store_wait") + "<" + std::to_string(s.pending) + ">();");
  }
}

// The address of a lane's first register.
Text KernelWriter::tile_operand(const TileOperand& o) {
  const Storage& s = storage_of(o.buffer);
  if (s.scope != Scope::Local) fail("the tile '" + o.buffer->name + "' is not in registers");
  const Expr word = s.per_word ? simplify(floordiv(o.index, Expr(s.per_word)), ranges_) : o.index;
  return {address(s, value(word)), kSum};
}

void KernelWriter::tile_op(const TileOp& t) {
  if (const auto* x = t.as<tile::Mma>()) return mma(t, *x);
  if (const auto* x = t.as<tile::LoadMatrix>()) return load_matrix(t, *x);
  if (const auto* x = t.as<tile::GroupMma>()) return group_mma(t, *x);
  if (const auto* x = t.as<tile::BulkLoad>()) return bulk_load(t, *x);
  if (t.as<tile::BulkStore>()) return bulk_store(t);
  const auto* round = t.as<tile::RoundTf32>();
  if (!round) return group_op(t);
  const TileOperand& x = t.operands.at(0);
  begin({x.index});
  before(prelude_.use("round_tf32") + "<" + std::to_string(round->registers) + ">(" +
         tile_operand(x).s + ");");
  flush();
}

void KernelWriter::load_matrix(const TileOp& t, const tile::LoadMatrix& load) {
  const TileOperand &to = t.operands.at(0), &from = t.operands.at(1);
  const Storage& memory = storage_of(from.buffer);
  if (memory.scope != Scope::Shared) fail("ldmatrix of '" + from.buffer->name + "'");
  begin({to.index, from.index});
  const std::string name = ldmatrix_name(load.matrices, load.transposed, to.buffer->dtype);
  before(prelude_.use(name) + "(" + tile_operand(to).s + ", " + address(memory, value(from.index)) +
         ");");
  flush();
}

void KernelWriter::mma(const TileOp& t, const tile::Mma& product) {
  const TileOperand &to = t.operands.at(0), &a = t.operands.at(1), &b = t.operands.at(2);
  begin({to.index, a.index, b.index});
  const InstructionForm* form = mma_instruction().form(
      {to.buffer->dtype, a.buffer->dtype, b.buffer->dtype}, {product.m, product.n, product.k});
  if (!form) fail("there is no such mma of '" + a.buffer->name + "'");
  before(prelude_.use(mma_name(*form)) + "(" + tile_operand(to).s + ", " + tile_operand(a).s +
         ", " + tile_operand(b).s + ");");
  flush();
}

}  // namespace heddle::cuda
