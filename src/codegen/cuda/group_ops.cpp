// Tiles that TMA loads, and products of warp groups.
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/bulk_text.h"
#include "codegen/cuda/text/wgmma_text.h"
#include "heddle/support/error.h"

namespace heddle::cuda {

std::string KernelWriter::map_parameters(const std::string& gap) {
  std::string out, before = gap;
  for (const GpuKernel::TensorMap& m : kernel_.maps) {
    map_names_.push_back(names_.unique("map_" + storage_of(m.source).name));
    // A part of a launch is given the maps of the kernel.
    out += before + "const " + (launch_threads_ > 0 ? "" : "__grid_constant__ ") +
           prelude_.use("TensorMap") + (launch_threads_ > 0 ? "& " : " ") + map_names_.back();
    before = ",\n" + std::string(kernel_.name.size() + 1, ' ');
  }
  return out;
}

// One thread brings the maps to where TMA reads them, while the kernel before this one still runs.
void KernelWriter::prefetch_maps() {
  if (map_names_.empty()) return;
  line("if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {");
  for (const std::string& name : map_names_)
    line("  " + prelude_.use("prefetch_map") + "(" + name + ");");
  line("}");
}

std::string KernelWriter::shared_operand(const TileOperand& o) {
  const Storage& s = storage_of(o.buffer);
  if (s.scope != Scope::Shared) fail("'" + o.buffer->name + "' is not in shared memory");
  return address(s, value(o.index));
}

void KernelWriter::pair_loop(const For& f) {
  if (kernel_.pair != 2) fail("a loop over the blocks of a pair");
  const std::string name = names_.unique(f.var->name);
  line("const int " + name + " = blockIdx.x % 2;");
  vars_[f.var.get()] = {{name, kAtom}};
  ranges_.set(f.var, {0, 1});
  uniform_.insert(f.var.get());
  rank_ = f.var;
  statement(f.body);
  rank_.reset();
  ranges_.erase(f.var);
}

void KernelWriter::group_op(const TileOp& t) {
  const auto on_barrier = [&](const char* name, const std::string& more) {
    begin({t.operands[0].index});
    before(prelude_.use(name) + "(" + shared_operand(t.operands[0]) + more + ");");
    flush();
  };
  if (const auto* x = t.as<tile::BarrierInit>())
    return on_barrier("barrier_init", ", " + std::to_string(x->arrivals));
  if (const auto* x = t.as<tile::BarrierExpect>())
    return on_barrier("barrier_expect", ", " + std::to_string(x->bytes));
  if (const auto* x = t.as<tile::BarrierArrive>())
    return on_barrier(x->at_pair ? "barrier_arrive_pair" : "barrier_arrive", "");
  if (t.as<tile::BarrierWait>()) {
    begin({t.operands[0].index, t.operands[1].index});
    const std::string barrier = shared_operand(t.operands[0]);
    before(prelude_.use("barrier_wait") + "(" + barrier + ", " + value(t.operands[1].index).s +
           ");");
    return flush();
  }
  if (const auto* x = t.as<tile::GroupWait>()) {
    begin({t.operands[0].index});
    before(prelude_.use(t.operands[0].buffer->dtype == i32 ? "wgmma_wait_s32" : "wgmma_wait") +
           "<" + std::to_string(x->pending) + ", " + std::to_string(x->registers) + ">(" +
           tile_operand(t.operands[0]).s + ");");
    return flush();
  }
  const auto* last = t.as<tile::LastArrival>();
  if (!last) fail("an operation of a warp, not of a warp group");
  begin({t.operands[0].index, t.operands[1].index, t.operands[2].index});
  const std::string ticket = address(storage_of(t.operands[1].buffer), value(t.operands[1].index));
  before("*(" + tile_operand(t.operands[0]).s +
         ") = " + prelude_.use(last->only_last ? "last_to_arrive" : "last_arrival") + "(" + ticket +
         ", " + value(t.operands[2].index).s + ");");
  flush();
}

void KernelWriter::bulk_load(const TileOp& t, const tile::BulkLoad& load) {
  const GpuKernel::TensorMap* map = find_map(kernel_, t);
  if (!map) fail("no tensor map for '" + t.operands[1].buffer->name + "'");
  const size_t offsets = load.windows.size(), rank = t.operands.size() - 2 - offsets;
  std::vector<TileOperand> operands = t.operands;
  if (load.by_pair) {  // this block's half of the rows
    if (!rank_) fail("a box for both blocks of a pair, outside of one");
    const Expr row = rank_->expr() * Expr(int64_t{load.rows_at_once()});
    const auto add = [&](size_t i, const Expr& x) {
      operands[i].index = simplify(operands[i].index + x, ranges_);
    };
    add(0, row * Expr(int64_t{load.box.columns}));
    add(1 + static_cast<size_t>(load.box.row_dim), row);
  }
  std::vector<Expr> roots;
  for (const TileOperand& o : operands) roots.push_back(o.index);
  begin(roots);
  const BulkForm form = offsets        ? BulkForm::Windows
                        : load.by_pair ? BulkForm::Pair
                                       : BulkForm::Alone;
  std::string call = prelude_.use(bulk_name(form, rank));
  call += "(" + shared_operand(operands[0]) + ", " +
          map_names_[static_cast<size_t>(map - kernel_.maps.data())];
  for (size_t d = rank; d-- > 0;) call += ", " + value(operands[1 + d].index).s;
  for (size_t d = offsets; d-- > 0;) call += ", " + value(operands[1 + rank + d].index).s;
  call += ", " + shared_operand(operands.back()) + ");";
  before(call);
  flush();
}

void KernelWriter::bulk_store(const TileOp& t) {
  const GpuKernel::TensorMap* map = find_map(kernel_, t);
  if (!map) fail("no tensor map for '" + t.operands[1].buffer->name + "'");
  const size_t rank = t.operands.size() - 1;
  std::vector<Expr> roots;
  for (const TileOperand& o : t.operands) roots.push_back(o.index);
  begin(roots);
  std::string call = prelude_.use(bulk_name(BulkForm::Store, rank)) + "(" +
                     map_names_[static_cast<size_t>(map - kernel_.maps.data())] + ", " +
                     shared_operand(t.operands[0]);
  for (size_t d = rank; d-- > 0;) call += ", " + value(t.operands[1 + d].index).s;
  before(call + ");");
  flush();
}

void KernelWriter::group_mma(const TileOp& t, const tile::GroupMma& product) {
  const TileOperand &d = t.operands.at(0), &a = t.operands.at(1), &b = t.operands.at(2);
  begin({d.index, a.index, b.index});
  const bool registers = a.buffer->scope == Scope::Local;
  if (registers && product.begins) fail("a product of registers that begins a sum");
  const std::string name =
      prelude_.use(registers ? wgmma_of_registers(product.n, b.buffer->dtype)
                             : wgmma_name(product.n, a.buffer->dtype, b.buffer->dtype) +
                                   (product.begins ? "_begins" : ""));
  const std::string to = tile_operand(d).s,
                    left = registers ? tile_operand(a).s : shared_operand(a),
                    right = shared_operand(b);
  const std::string across_a =
      registers ? "" : std::to_string(static_cast<int>(product.a_across)) + ", ";
  before(name + "<" + across_a + std::to_string(static_cast<int>(product.b_across)) + ">(" + to +
         ", " + left + ", " + right + ");");
  flush();
}

}  // namespace heddle::cuda
