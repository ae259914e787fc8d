#include "codegen/cuda/text/short_extrema_text.h"

#include <algorithm>

namespace heddle::cuda {
namespace {

struct Function {
  std::string_view name, op, type, needs;
};
constexpr Function kFunctions[] = {
    {"min_f16", "min", "f16", "min_f32 f32_from_f16 f16_from_f32"},
    {"max_f16", "max", "f16", "max_f32 f32_from_f16 f16_from_f32"},
    {"min_bf16", "min", "bf16", "min_f32 f32_from_bf16 bf16_from_f32"},
    {"max_bf16", "max", "bf16", "max_f32 f32_from_bf16 bf16_from_f32"}};

// OP and TYPE stand for those of the function.
constexpr std::string_view kText =
    R"($ unsigned short OP_TYPE(unsigned short a, unsigned short b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned short r;
  asm("OP.NaN.TYPE %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
  return r;
#else
  return TYPE_from_f32(OP_f32(f32_from_TYPE(a), f32_from_TYPE(b)));
#endif
})";

const Function* function_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const Function& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

std::optional<std::string> short_extrema_text(std::string_view name) {
  const Function* f = function_of(name);
  if (!f) return {};
  std::string text(kText);
  replace_all(text, "OP", f->op);
  replace_all(text, "TYPE", f->type);
  return text;
}

std::string_view short_extrema_needs(std::string_view name) { return function_of(name)->needs; }

std::vector<std::string> short_extrema_names() {
  std::vector<std::string> names;
  for (const Function& f : kFunctions) names.emplace_back(f.name);
  return names;
}

}  // namespace heddle::cuda
