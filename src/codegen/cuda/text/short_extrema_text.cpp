#include "codegen/cuda/text/generated.h"

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

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string text_of(const Function& f) {
  std::string text(kText);
  replace_all(text, "OP", f.op);
  replace_all(text, "TYPE", f.type);
  return text;
}

}  // namespace

GeneratedHelpers short_extrema_helpers() {
  GeneratedHelpers out;
  for (const Function& f : kFunctions)
    out.push_back({std::string(f.name), std::string(f.needs), false, [&f] { return text_of(f); }});
  return out;
}

}  // namespace heddle::cuda
