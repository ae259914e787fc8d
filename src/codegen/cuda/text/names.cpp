#include "codegen/cuda/text/names.h"

#include <cctype>

#include "codegen/cuda/text/prelude.h"

namespace heddle::cuda {
namespace {

// Names that a parameter or variable must not hide: keywords, and CUDA names that the text uses.
constexpr const char* kReserved[] = {
    "alignas",    "alignof",  "and",       "and_eq",    "asm",       "auto",     "bitand",
    "bitor",      "bool",     "break",     "case",      "catch",     "char",     "class",
    "compl",      "concept",  "const",     "constexpr", "continue",  "decltype", "default",
    "delete",     "do",       "double",    "else",      "enum",      "explicit", "export",
    "extern",     "false",    "float",     "for",       "friend",    "goto",     "if",
    "inline",     "int",      "long",      "mutable",   "namespace", "new",      "noexcept",
    "not",        "not_eq",   "nullptr",   "operator",  "or",        "or_eq",    "private",
    "protected",  "public",   "register",  "requires",  "return",    "short",    "signed",
    "sizeof",     "static",   "struct",    "switch",    "template",  "this",     "throw",
    "true",       "try",      "typedef",   "typeid",    "typename",  "union",    "unsigned",
    "using",      "virtual",  "void",      "volatile",  "wchar_t",   "while",    "xor",
    "xor_eq",     "blockIdx", "threadIdx", "blockDim",  "gridDim",   "warpSize", "float2",
    "float4",     "double2",  "int2",      "int4",      "uint2",     "uint4",    "longlong2",
    "ulonglong2", "min",      "max",       "isnan",     "isinf",     "smem",     "bx",
    "by",         "bz",       "tx",        "ty",        "tz",        "fabsf",    "expf",
    "exp2f",      "expm1f",   "logf",      "log2f",     "log10f",    "log1pf",   "sqrtf",
    "rsqrtf",     "sinf",     "cosf",      "tanf",      "asinf",     "acosf",    "atanf",
    "sinhf",      "coshf",    "tanhf",     "erff",      "floorf",    "ceilf",    "rintf",
    "truncf",     "fmodf",    "powf",      "atan2f",    "fabs",      "exp",      "exp2",
    "expm1",      "log",      "log2",      "log10",     "log1p",     "sqrt",     "rsqrt",
    "sin",        "cos",      "tan",       "asin",      "acos",      "atan",     "sinh",
    "cosh",       "tanh",     "erf",       "floor",     "ceil",      "rint",     "trunc",
    "fmod",       "pow",      "atan2",     "NULL"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

}  // namespace

bool is_identifier(const std::string& name) {
  if (name.empty() || !is_letter(name[0])) return false;
  for (char c : name) {
    if (!is_letter(c) && !is_digit(c)) return false;
  }
  return true;
}

Names::Names() : taken_(std::begin(kReserved), std::end(kReserved)) {
  for (const char* vector : {"float2", "float4", "double2", "int2", "int4", "uint2", "uint4",
                             "longlong2", "ulonglong2"}) {
    taken_.insert(std::string("make_") + vector);
  }
  for (std::string& name : Prelude::names()) taken_.insert(std::move(name));
}

std::string Names::unique(const std::string& wanted) {
  std::string name;
  for (char c : wanted) {
    // C++ reserves names with two underscores in a row and names that begin with an underscore.
    const char safe = is_letter(c) || is_digit(c) ? c : '_';
    if (safe == '_' && (name.empty() || name.back() == '_')) continue;
    name += safe;
  }
  if (name.empty() || is_digit(name[0])) name = "v" + name;
  std::string candidate = name;
  for (int i = 1; !taken_.insert(candidate).second; ++i) {
    candidate = name + (name.back() == '_' ? "" : "_") + std::to_string(i);
  }
  return candidate;
}

std::string Names::numbered(const std::string& stem) {
  std::string name;
  do {
    name = stem + std::to_string(next_[stem]++);
  } while (!taken_.insert(name).second);
  return name;
}

}  // namespace heddle::cuda
