// Picks that the user determines: by name, by an environment variable, or by a chooser.
#include <algorithm>

#include "heddle/support/error.h"
#include "runtime/dispatch/multi_kernel_impl.h"
#include "support/edit_distance.h"
#include "support/environment.h"

namespace heddle {
namespace {

/// The variant that HEDDLE_PICK names for a kernel: "NAME" for all kernels, or
/// "kernel=NAME,other=NAME".
std::string forced_by_variable(const std::string& kernel) {
  const std::string list = internal::environment_value("HEDDLE_PICK");
  if (list.find('=') == std::string::npos) return list;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = item.rfind('=');  // names of kernels may contain '='
    if (equals == std::string::npos) {
      throw_user_error("HEDDLE_PICK has '" + item + "' among pairs", {},
                       "write KERNEL=VARIANT,KERNEL=VARIANT, or one VARIANT for all");
    }
    if (item.substr(0, equals) == kernel) return item.substr(equals + 1);
  }
  return {};
}

}  // namespace

std::vector<std::string> MultiKernel::Impl::names() const {
  std::vector<std::string> out;
  for (const VariantState& v : variants) out.push_back(v.variant.name);
  return out;
}

size_t MultiKernel::Impl::index_of(const std::string& variant) const {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].variant.name == variant) return i;
  }
  std::string list;
  for (const std::string& n : names()) list += (list.empty() ? "" : ", ") + n;
  std::string hint = did_you_mean(variant, names());
  throw_user_error("'" + facts.name + "' has no variant '" + variant + "'", {},
                   (hint.empty() ? "" : hint + " ") + "it has " + list +
                       "; HEDDLE_PICK can be limited to one kernel: " + facts.name + "=" +
                       variants[0].variant.name);
}

void MultiKernel::Impl::read_forced() {
  const std::string by_variable = options.force.empty() ? forced_by_variable(facts.name) : "";
  const std::string& name = options.force.empty() ? by_variable : options.force;
  if (name.empty()) return;
  forced_by = options.force.empty() ? "HEDDLE_PICK" : "PickOptions::force";
  selector.force(static_cast<int>(index_of(name)));
}

int MultiKernel::Impl::applicable_index(const Call& call, const std::string& variant) const {
  const size_t index = variants[index_of(variant)].same_as;
  const auto& list = call.applicable;
  return std::find(list.begin(), list.end(), index) == list.end() ? -1 : static_cast<int>(index);
}

int MultiKernel::Impl::pick_forced(const Call& call, PickRow& row) const {
  if (call.forced < 0) return -1;
  const std::string& name = variants[static_cast<size_t>(call.forced)].variant.name;
  const int pick = applicable_index(call, name);
  if (pick < 0) {
    throw_runtime_error("variant '" + name + "' of '" + facts.name + "' is forced by " +
                        forced_by.load() + " and does not take " + call.shapes);
  }
  row.reason = PickReason::Forced;
  row.note = std::string("by ") + forced_by.load();
  return pick;
}

int MultiKernel::Impl::pick_chosen(const Call& call, PickRow& row) const {
  if (!options.choose) return -1;
  PickQuery query{facts.name, facts.target, call.args, {}, {}};
  for (const KernelArg& a : call.args) {
    for (size_t d = 0; d < a.shape.size(); ++d) {
      query.features.emplace_back(a.name + "." + std::to_string(d),
                                  static_cast<double>(a.shape[d]));
    }
  }
  for (const size_t v : call.applicable) query.variants.push_back(variants[v].variant.name);
  const std::string name = options.choose(query);
  if (name.empty()) return -1;
  const int pick = applicable_index(call, name);
  if (pick < 0) {
    throw_runtime_error("the chooser of '" + facts.name + "' chose '" + name +
                        "', which does not take " + call.shapes);
  }
  row.reason = PickReason::Chosen;
  return pick;
}

}  // namespace heddle
