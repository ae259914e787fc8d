#include "generate/gguf_facts.h"

#include <algorithm>
#include <cmath>

#include "heddle/support/error.h"

namespace heddle::generate {
namespace {

struct Family {
  const char* name;
  bool interleaved;
};
constexpr Family kFamilies[] = {{"llama", true}, {"qwen2", false}, {"qwen3", false}};

}  // namespace

GgufFacts::GgufFacts(const GgufFile& file) : file_(file) {
  const Json* given = file.metadata().find("general.architecture");
  for (const Family& f : kFamilies) {
    if (!given || !given->is_string() || given->as_string() != f.name) continue;
    family = f.name;
    interleaved = f.interleaved;
  }
  if (family.empty())
    fail("its architecture is " + (given ? given->dump() : "not given"),
         "files of llama, qwen2 and qwen3 are read");
  layers = integer("block_count", {}, 1 << 12);
  hidden = integer("embedding_length", {}, 1 << 20);
  heads = integer("attention.head_count", {}, 1 << 16);
  groups = integer("attention.head_count_kv", heads, 1 << 16);
  if (heads % groups != 0)
    fail(std::to_string(heads) + " heads cannot share " + std::to_string(groups));
  size = integer("attention.key_length", std::max<int64_t>(1, hidden / heads), 1 << 16);
  if (integer("attention.value_length", size, 1 << 16) != size)
    fail("its keys and values differ in size");
  turned = integer("rope.dimension_count", size, 1 << 16);
  if (turned % 2 != 0 || turned > size)
    fail("its rope.dimension_count is " + std::to_string(turned));
  context = integer("context_length", 0, int64_t{1} << 32);
  epsilon = number("attention.layer_norm_rms_epsilon", {});
  base = number("rope.freq_base", 10000.0);
  if (find("expert_count") && integer("expert_count", 0, 1 << 20) > 0)
    fail("it has experts, which are not supported");
  read_scaling();
}

void GgufFacts::fail(const std::string& what, const std::string& help) const {
  throw_user_error("'" + file_.path() + "' is no language model that can be read: " + what, {},
                   help);
}

const Json* GgufFacts::find(const std::string& key) const {
  return file_.metadata().find(family + "." + key);
}

int64_t GgufFacts::integer(const std::string& key, std::optional<int64_t> usual,
                           int64_t most) const {
  const Json* value = find(key);
  if (!value && usual) return *usual;
  if (!value || !value->is_int() || value->as_int() < 0 || value->as_int() > most ||
      (value->as_int() == 0 && usual.value_or(1) != 0))
    fail("its " + key + " is " + (value ? value->dump() : "not given, or a list"));
  return value->as_int();
}

double GgufFacts::number(const std::string& key, std::optional<double> usual) const {
  const Json* value = find(key);
  if (!value && usual) return *usual;
  if (!value || !value->is_number() || !(value->as_double() > 0) ||
      !std::isfinite(value->as_double()))
    fail("its " + key + " is " + (value ? value->dump() : "not given"));
  return value->as_double();
}

// Without a type a factor is that of linear scaling, and old files have another name for it.
void GgufFacts::read_scaling() {
  const Json* kind = find("rope.scaling.type");
  if (kind && kind->is_string() && kind->as_string() == "none") return;
  if (kind && (!kind->is_string() || kind->as_string() != "linear"))
    fail("its rope.scaling.type is " + kind->dump(), "none and linear are read");
  stretch = number(find("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", 1.0);
}

}  // namespace heddle::generate
