#include "heddle/target/target.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "support/edit_distance.h"
#include "target/check_target.h"
#include "target/cpu_table.h"
#include "target/target_text.h"

namespace heddle {
namespace {

using internal::Arch;
using internal::CpuRow;
using internal::TargetText;

// One number of a target, with the option that sets it.
struct Field {
  const char* option;
  int Target::* number = nullptr;
  std::int64_t Target::* bytes = nullptr;
  std::int64_t low = 1;
  std::int64_t high = 1;
};

constexpr Field kFields[] = {
    {"threads", &Target::cores, nullptr, 1, 1024},
    {"vector", &Target::vector_bytes, nullptr, 8, 256},
    {"registers", &Target::vector_registers, nullptr, 4, 128},
    {"fma", &Target::fma_units, nullptr, 1, 16},
    {"l1d", nullptr, &Target::l1d_bytes, 1 << 10, 1 << 24},
    {"l2", nullptr, &Target::l2_bytes, 1 << 10, std::int64_t{1} << 32},
    {"l3", nullptr, &Target::l3_bytes, 0, std::int64_t{1} << 36},
};

// The hint for an unknown kind.
std::string known_kinds(const std::string& kind) {
  const std::string guess = did_you_mean(kind, {"llvm", "cuda"});
  return guess.empty() ? "the kinds are: llvm, cuda" : guess;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names = {"mcpu", "mattr", "mtriple"};
  for (const Field& field : kFields) names.emplace_back(field.option);
  return names;
}

std::int64_t field_of(const Target& target, const Field& field) {
  return field.number != nullptr ? target.*field.number : target.*field.bytes;
}

void set_field(Target& target, const Field& field, std::string_view value, const TargetText& text) {
  const std::int64_t number =
      text.number(field.option, value, field.bytes != nullptr, field.low, field.high);
  if (field.number != nullptr) {
    target.*field.number = static_cast<int>(number);
  } else {
    target.*field.bytes = number;
  }
}

std::string default_triple(const CpuRow& row) {
  if (row.arch == internal::host_arch()) return {};
  if (row.name.starts_with("apple")) return "arm64-apple-macosx";
  return row.arch == Arch::Aarch64 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
}

Arch arch_of(const Target& target) {
  const CpuRow* row = internal::find_cpu(target.mcpu);
  return row != nullptr ? row->arch : Arch::Other;
}

// The target of the table for this CPU, with these features.
Target base_target(const std::string& kind, const CpuRow& row, const std::string& features) {
  Target target;
  target.kind = kind;
  target.mcpu = std::string(row.name);
  target.features = features;
  target.triple = default_triple(row);
  const internal::Vector vector =
      internal::vector_of(row.arch, internal::apply_features(row.features, features));
  target.vector_bytes = vector.bytes;
  target.vector_registers = vector.registers;
  target.fma_units = row.fma_units;
  target.cores = row.cores;
  target.l1d_bytes = row.l1d_bytes;
  target.l2_bytes = row.l2_bytes;
  target.l3_bytes = row.l3_bytes;
  return target;
}

/// Whether `word` has only characters that names of CPUs, features and triples have.
bool is_plain(const std::string& word) {
  return std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.+").find(c) != std::string_view::npos;
  });
}

void check_features(const std::string& features, const TargetText& text) {
  for (const std::string& feature : internal::split(features, ',')) {
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-')) {
      text.fail("feature '" + feature + "' in -mattr has no sign", "write +name or -name");
    }
    if (!is_plain(feature)) text.fail("'" + feature + "' in -mattr is no name of a feature");
  }
}

}  // namespace

Target Target::parse(std::string_view text) {
  const std::vector<std::string> words = internal::split(text, ' ');
  const TargetText plain{text, {}};
  if (words.empty()) plain.fail("empty", "for example: llvm -mcpu=haswell -threads=2");
  const std::string& kind = words[0];
  if (kind == "cuda") return internal::parse_cuda(text, words);
  if (kind != "llvm") {
    plain.fail("unknown kind '" + kind + "'", known_kinds(kind));
  }
  const TargetText parsed = internal::parse_options(text, words, option_names());

  // The CPU and its features are read first, whatever the order of the options, because the numbers
  // change what they imply.
  const char* generic = internal::host_arch() == Arch::Aarch64 ? "generic" : "x86-64";
  const std::string cpu = parsed.value_of("mcpu", generic);
  std::string features = parsed.value_of("mattr", "");
  check_features(features, parsed);
  Target target;
  if (cpu == "native") {
    target = host();
    if (!features.empty()) {
      const Target& here = host();
      if (!here.features.empty()) features = here.features + "," + features;
      const Target changed = base_target(kind, *internal::find_cpu(here.mcpu), features);
      target.features = features;
      target.vector_bytes = changed.vector_bytes;
      target.vector_registers = changed.vector_registers;
    }
  } else {
    const CpuRow* row = internal::find_cpu(cpu);
    if (row == nullptr) {
      const std::string guess = did_you_mean(cpu, known_cpus());
      parsed.fail("unknown CPU '" + cpu + "'",
                  guess.empty() ? "known are " + internal::join(known_cpus()) : guess);
    }
    target = base_target(kind, *row, features);
  }
  target.triple = parsed.value_of("mtriple", target.triple);
  for (const Field& field : kFields) {
    const std::string value = parsed.value_of(field.option, "");
    if (!value.empty()) set_field(target, field, value, parsed);
  }
  if ((target.vector_bytes & (target.vector_bytes - 1)) != 0) {
    parsed.fail("-vector=" + std::to_string(target.vector_bytes) + " is not a power of two");
  }
  internal::check_target(target);
  return target;
}

bool Target::is_x86() const { return arch_of(*this) == Arch::X86; }
bool Target::is_aarch64() const { return arch_of(*this) == Arch::Aarch64; }

bool Target::has(std::string_view feature) const {
  const std::vector<std::string> all = internal::features_of(*this);
  return std::find(all.begin(), all.end(), feature) != all.end();
}

void check_kind(const Target& target) {
  const std::string& kind = target.kind;
  if (kind == "llvm" || target.is_cuda()) return;
  throw_user_error("there are no targets of kind '" + kind + "'", {},
                   kind.find(' ') == std::string::npos
                       ? known_kinds(kind)
                       : "Target::parse reads the text form of a target");
}

void internal::check_target(const Target& target) {
  check_kind(target);
  if (target.is_cuda()) return;
  if (target.mcpu.empty() || !is_plain(target.mcpu))
    throw_user_error("'" + target.mcpu + "' is no name of a CPU", {},
                     "name that of the machine, such as haswell or native; known are " +
                         internal::join(known_cpus()));
  if (!target.features.empty()) check_features(target.features, {to_string(target), {}});
  if (!is_plain(target.triple))
    throw_user_error("'" + target.triple + "' is no triple of a target", {},
                     "leave it empty, or write one such as aarch64-unknown-linux-gnu");
}

std::string to_string(const Target& target) {
  if (target.is_cuda()) return internal::cuda_text(target);
  std::string text = target.kind + " -mcpu=" + target.mcpu;
  if (!target.features.empty()) text += " -mattr=" + target.features;
  const CpuRow* row = internal::find_cpu(target.mcpu);
  const Target base = row != nullptr ? base_target(target.kind, *row, target.features) : Target();
  if (target.triple != base.triple) text += " -mtriple=" + target.triple;
  for (const Field& field : kFields) {
    const std::int64_t value = field_of(target, field);
    if (value == field_of(base, field)) continue;
    text += internal::option_text(field.option, value, field.bytes != nullptr);
  }
  return text;
}

std::vector<std::string> known_cpus() {
  std::vector<std::string> names = {"native"};
  for (const CpuRow& row : internal::cpu_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace heddle
