#include "lower/passes/finite_checks.h"

#include <cstdint>
#include <string>

#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::lowering {
namespace {

// Slots on a CPU, and blocks and threads on a GPU, that check an argument.
constexpr int64_t kSlots = 16;
constexpr int64_t kBlocks = 64, kThreads = 256;
constexpr int64_t kNothing = INT64_MAX;

/// Which elements a slot checks.
enum class Order : uint8_t {
  Blocked,  ///< neighbouring elements, which suits caches
  Strided,  ///< one of every `slots` elements, so that neighbouring threads load together
};

/// report[row*slots + slot] = the first bad element among those of the slot
Stmt check_slot(const Buffer& x, const Buffer& report, int64_t row, int64_t slots, const Expr& slot,
                Order order) {
  Expr n(1);
  for (const Expr& extent : x->shape) n = n * extent;
  const Expr each = simplify(floordiv(n + Expr(slots - 1), Expr(slots)));
  const Buffer first = Buffer::make("first", i64, {1}, Scope::Local);
  const Var j("j", i64);
  const Expr i = order == Order::Blocked ? slot * each + j : Expr(j) * slots + slot;
  const Expr element = cast(x->dtype == f64 ? f64 : f32, make_load(x, {i}));
  const Expr found = make_select(
      make_unary(UnaryOp::IsNan, element), i * 2,
      make_select(make_unary(UnaryOp::IsInf, element), i * 2 + 1, make_int(i64, kNothing)));
  const Stmt look = make_store(first, {Expr(0)}, min(make_load(first, {Expr(0)}), found));
  std::vector<Stmt> stmts;
  stmts.push_back(make_store(first, {Expr(0)}, make_int(i64, kNothing)));
  stmts.push_back(make_for(j, each, LoopKind::Serial, make_if(i < n, look, {})));
  stmts.push_back(make_store(report, {slot + row * slots}, make_load(first, {Expr(0)})));
  return make_allocate(first, make_block(std::move(stmts)));
}

/// The rows of arguments that can be NaN or infinite, and the buffer for them.
FiniteChecks plan(const std::vector<CheckedArgument>& args, int64_t slots) {
  FiniteChecks checks;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].buffer->dtype.is_float()) checks.args.push_back(static_cast<int>(i));
  }
  if (checks.args.empty()) return checks;
  checks.slots = slots;
  const auto rows = static_cast<int64_t>(checks.args.size());
  checks.report = Buffer::make("report", i64, {rows * slots}, Scope::Argument);
  return checks;
}

}  // namespace

FiniteChecks add_finite_checks(LoweredProgram& program, const std::vector<CheckedArgument>& args) {
  FiniteChecks checks = plan(args, kSlots);
  if (!checks.report) return checks;
  std::vector<Stmt> before, after;
  for (size_t row = 0; row < checks.args.size(); ++row) {
    const CheckedArgument& arg = args[static_cast<size_t>(checks.args[row])];
    const Var t("t", i64);
    const Stmt body = check_slot(arg.buffer, checks.report, static_cast<int64_t>(row), kSlots,
                                 Expr(t), Order::Blocked);
    const Stmt loop = make_for(t, kSlots, LoopKind::Parallel, body);
    (arg.output ? after : before).push_back(simplify(loop));
  }
  std::vector<Stmt> all = std::move(before);
  if (program.main.body) all.push_back(program.main.body);
  all.insert(all.end(), after.begin(), after.end());
  program.main.body = make_block(std::move(all));
  program.main.args.push_back(checks.report);
  return checks;
}

FiniteChecks add_finite_checks(GpuProgram& program, const std::vector<CheckedArgument>& args) {
  FiniteChecks checks = plan(args, kBlocks * kThreads);
  if (!checks.report) return checks;
  std::vector<GpuKernel> before, after;
  for (size_t row = 0; row < checks.args.size(); ++row) {
    const CheckedArgument& arg = args[static_cast<size_t>(checks.args[row])];
    const Var block("block", i64), thread("thread", i64);
    const Stmt body = check_slot(arg.buffer, checks.report, static_cast<int64_t>(row), checks.slots,
                                 Expr(block) * kThreads + thread, Order::Strided);
    GpuKernel k;
    k.name = program.name + "_check" + std::to_string(row);
    k.args = {arg.buffer, checks.report};
    k.body = simplify(make_for(block, kBlocks, LoopKind::BlockX,
                               make_for(thread, kThreads, LoopKind::ThreadX, body)));
    k.grid = {kBlocks, 1, 1};
    k.block = {kThreads, 1, 1};
    gpu::note_sizes(k);
    (arg.output ? after : before).push_back(std::move(k));
  }
  program.main.insert(program.main.begin(), before.begin(), before.end());
  program.main.insert(program.main.end(), after.begin(), after.end());
  return checks;
}

}  // namespace heddle::lowering
