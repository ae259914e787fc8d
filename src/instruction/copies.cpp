// Copies between memories of a GPU: d[row, col] = s[row, col]. And what lanes do with elements of
// fragments, for which there is no instruction.
#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"

namespace heddle {
namespace {

MachineInstruction copy(std::string name, std::string about, bool (Gpu::*has)() const) {
  MachineInstruction out;
  out.name = std::move(name);
  out.about = std::move(about);
  out.loops = {"row", "col"};
  out.operands = {{"d", {0, 1}}, {"s", {0, 1}}};
  out.value = [](const std::vector<Expr>& x) { return x[1]; };
  out.legal = [has](const Target& t, const InstructionForm&) {
    return t.is_cuda() && (t.gpu.*has)();
  };
  return out;
}

void add_form(MachineInstruction* x, DataType t, std::vector<int64_t> rows,
              std::vector<int64_t> cols) {
  x->forms.push_back({{t, t}, {std::move(rows), std::move(cols)}});
}

MachineInstruction make_ldmatrix() {
  MachineInstruction out =
      copy("ldmatrix", "A tile of an operand of mma, from shared memory to registers.",
           &Gpu::has_cp_async);
  for (const DataType t : {f16, bf16, f32, i8, u8, f8e4m3, f8e5m2}) {
    const int64_t depth = mma::depth(mma::elements_per_register(t));
    if (depth != mma::kRows) add_form(&out, t, {mma::kRows}, {depth});
    add_form(&out, t, {depth}, {mma::kCols, 2 * mma::kCols});
  }
  return out;
}

MachineInstruction make_tma(std::string name, std::string about, int most_bytes) {
  MachineInstruction out = copy(std::move(name), std::move(about), &Gpu::has_wgmma);
  std::vector<int64_t> rows;
  for (int64_t n = 1; n <= tma::kMostRows; ++n) rows.push_back(n);
  for (const DataType t : {f32, i32, u32, f16, bf16, i16, u16, i8, u8, f8e4m3, f8e5m2}) {
    if (t.bytes() <= most_bytes) add_form(&out, t, rows, {tma::row_elements(t)});
  }
  return out;
}

MachineInstruction make_lanes() {
  MachineInstruction out;
  out.name = "lanes";
  out.about = "Elements of fragments, by the lanes that hold them.";
  out.legal = [](const Target& t, const InstructionForm&) { return t.is_cuda(); };
  return out;
}

}  // namespace

const MachineInstruction& ldmatrix_instruction() {
  static const MachineInstruction entry = make_ldmatrix();
  return entry;
}
const MachineInstruction& tma_load_instruction() {
  static const MachineInstruction entry =
      make_tma("tma_load", "A box from global to shared memory (cp.async.bulk.tensor).", 4);
  return entry;
}
const MachineInstruction& tma_store_instruction() {
  static const MachineInstruction entry =
      make_tma("tma_store", "A box from shared to global memory (cp.async.bulk.tensor).", 2);
  return entry;
}
const MachineInstruction& lanes_instruction() {
  static const MachineInstruction entry = make_lanes();
  return entry;
}

const MachineInstruction* instruction_of(const tile::Operation& op) {
  if (std::get_if<tile::Mma>(&op)) return &mma_instruction();
  if (std::get_if<tile::GroupMma>(&op)) return &wgmma_instruction();
  if (std::get_if<tile::LoadMatrix>(&op)) return &ldmatrix_instruction();
  if (std::get_if<tile::BulkLoad>(&op)) return &tma_load_instruction();
  if (std::get_if<tile::BulkStore>(&op)) return &tma_store_instruction();
  return nullptr;
}

}  // namespace heddle
