#include "codegen/cuda/text/bulk_text.h"

#include "codegen/cuda/text/generated.h"

namespace heddle::cuda {
namespace {

constexpr size_t kLeastRank = 2, kMostRank = 5;
constexpr BulkForm kForms[] = {BulkForm::Alone, BulkForm::Pair, BulkForm::Windows, BulkForm::Store};
constexpr std::string_view kCoordinates = "xyzuv", kOffsets = "abc";

// "%2, %3": `count` operands from `first` on.
std::string numbers(size_t first, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i ? ", %" : "%") + std::to_string(first + i);
  return out;
}

std::string text_of_store(size_t rank) {
  std::string parameters, operands;
  for (size_t d = 0; d < rank; ++d) {
    parameters += std::string(", int ") + kCoordinates[d];
    operands += std::string(", \"r\"(") + kCoordinates[d] + ")";
  }
  return "$ void " + bulk_name(BulkForm::Store, rank) + "(const TensorMap& map, const void* from" +
         parameters +
         ") {\n"
         "  asm volatile(\"cp.async.bulk.tensor." +
         std::to_string(rank) +
         "d.global.shared::cta.bulk_group \"\n"
         "               \"[%0, {" +
         numbers(2, rank) +
         "}], [%1];\"\n"
         "               ::\"l\"(&map), \"r\"(shared_address(from))" +
         operands + " : \"memory\");\n}";
}

std::string text_of(BulkForm form, size_t rank) {
  if (form == BulkForm::Store) return text_of_store(rank);
  const size_t offsets = form == BulkForm::Windows ? rank - 2 : 0;
  std::string parameters, operands;
  for (size_t d = 0; d < rank; ++d) {
    parameters += std::string(", int ") + kCoordinates[d];
    operands += std::string(", \"r\"(") + kCoordinates[d] + ")";
  }
  for (size_t d = 0; d < offsets; ++d) {
    parameters += std::string(", int ") + kOffsets[d];
    operands += std::string(", \"h\"((unsigned short)") + kOffsets[d] + ")";
  }
  const std::string barrier = "%" + std::to_string(2 + rank + offsets);
  std::string modifiers, more;
  if (form == BulkForm::Windows) {
    modifiers = ".im2col";
    more = ", {" + numbers(2 + rank, offsets) + "}";
  }
  std::string multicast, mask;
  if (form == BulkForm::Pair) {
    multicast = ".multicast::cluster";
    more = ", %" + std::to_string(3 + rank);
    mask = ", \"h\"((unsigned short)3)";
  }
  return "$ void " + bulk_name(form, rank) + "(void* to, const TensorMap& map" + parameters +
         ", unsigned long long* barrier) {\n"
         "  asm volatile(\"cp.async.bulk.tensor." +
         std::to_string(rank) + "d.shared::cluster.global" + modifiers +
         ".mbarrier::complete_tx::bytes" + multicast +
         " \"\n"
         "               \"[%0], [%1, {" +
         numbers(2, rank) + "}], [" + barrier + "]" + more +
         ";\"\n"
         "               ::\"r\"(shared_address(to)), \"l\"(&map)" +
         operands +
         ",\n"
         "                 \"r\"(shared_address(barrier))" +
         mask + " : \"memory\");\n}";
}

}  // namespace

std::string bulk_name(BulkForm form, size_t rank) {
  const std::string dims = std::to_string(rank) + "d";
  if (form == BulkForm::Windows) return "window_load_" + dims;
  if (form == BulkForm::Store) return "bulk_store_" + dims;
  return "bulk_load_" + dims + (form == BulkForm::Pair ? "_pair" : "");
}

GeneratedHelpers bulk_helpers() {
  GeneratedHelpers out;
  for (const BulkForm form : kForms) {
    for (size_t rank = form == BulkForm::Windows ? 3 : kLeastRank; rank <= kMostRank; ++rank)
      out.push_back({bulk_name(form, rank), "shared_address TensorMap", true,
                     [=] { return text_of(form, rank); }});
  }
  return out;
}

}  // namespace heddle::cuda
