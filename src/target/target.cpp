#include "heddle/target/target.h"

#include <algorithm>
#include <charconv>

#include "heddle/support/edit_distance.h"
#include "heddle/support/error.h"
#include "target/cpu_table.h"

namespace heddle {
namespace {

using detail::Arch;
using detail::CpuRow;

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

[[noreturn]] void fail(std::string_view text, const std::string& problem, std::string help = {}) {
  throw_user_error("target '" + std::string(text) + "': " + problem, {}, std::move(help));
}

std::vector<std::string> option_names() {
  std::vector<std::string> names = {"-mcpu", "-mattr", "-mtriple"};
  for (const Field& field : kFields) names.push_back("-" + std::string(field.option));
  return names;
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::int64_t field_of(const Target& target, const Field& field) {
  return field.number != nullptr ? target.*field.number : target.*field.bytes;
}

void set_field(Target& target, const Field& field, std::string_view value, std::string_view text) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  auto [stop, error] = std::from_chars(value.data(), end, number);
  bool good = error == std::errc() && number >= 0;
  if (good && stop + 1 == end && field.bytes != nullptr && (*stop == 'K' || *stop == 'M')) {
    const std::int64_t unit = *stop == 'K' ? 1 << 10 : 1 << 20;
    good = !__builtin_mul_overflow(number, unit, &number);
    ++stop;
  }
  if (!good || stop != end || number < field.low || number > field.high) {
    fail(text, "-" + std::string(field.option) + "=" + std::string(value) + " is not in " +
                   std::to_string(field.low) + ".." + std::to_string(field.high));
  }
  if (field.number != nullptr) {
    target.*field.number = static_cast<int>(number);
  } else {
    target.*field.bytes = number;
  }
}

std::string default_triple(const CpuRow& row) {
  if (row.arch == detail::host_arch()) return {};
  if (row.name.starts_with("apple")) return "arm64-apple-macosx";
  return row.arch == Arch::Aarch64 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
}

Arch arch_of(const Target& target) {
  const CpuRow* row = detail::find_cpu(target.mcpu);
  return row != nullptr ? row->arch : Arch::Other;
}

// What the table says for this CPU with these features.
Target base_target(const std::string& kind, const CpuRow& row, const std::string& features) {
  Target target;
  target.kind = kind;
  target.mcpu = std::string(row.name);
  target.features = features;
  target.triple = default_triple(row);
  const detail::Vector vector =
      detail::vector_of(row.arch, detail::apply_features(row.features, features));
  target.vector_bytes = vector.bytes;
  target.vector_registers = vector.registers;
  target.fma_units = row.fma_units;
  target.cores = row.cores;
  target.l1d_bytes = row.l1d_bytes;
  target.l2_bytes = row.l2_bytes;
  target.l3_bytes = row.l3_bytes;
  return target;
}

void check_features(const std::string& features, std::string_view text) {
  for (const std::string& feature : detail::split(features, ',')) {
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-')) {
      fail(text, "feature '" + feature + "' in -mattr has no sign", "write +name or -name");
    }
  }
}

struct Option {
  std::string name;
  std::string value;
};

Option parse_option(const std::string& word, std::string_view text) {
  const std::size_t equals = word.find('=');
  if (word.size() < 2 || word[0] != '-' || equals == std::string::npos) {
    fail(text, "'" + word + "' is no option", "options look like -mcpu=haswell");
  }
  Option option{word.substr(1, equals - 1), word.substr(equals + 1)};
  const std::vector<std::string> names = option_names();
  const std::string written = "-" + option.name;
  if (std::find(names.begin(), names.end(), written) == names.end()) {
    const std::string guess = did_you_mean(written, names);
    fail(text, "unknown option '" + written + "'",
         guess.empty() ? "options are " + join(names) : guess);
  }
  if (option.value.empty()) fail(text, "option '-" + option.name + "' has no value");
  return option;
}

}  // namespace

Target Target::parse(std::string_view text) {
  const std::vector<std::string> words = detail::split(text, ' ');
  if (words.empty()) fail(text, "empty", "for example: llvm -mcpu=haswell -threads=2");
  const std::string& kind = words[0];
  if (kind != "llvm") {
    const std::string guess = did_you_mean(kind, {"llvm"});
    fail(text, "unknown kind '" + kind + "'", guess.empty() ? "the kinds are: llvm" : guess);
  }

  std::vector<Option> options;
  for (std::size_t i = 1; i < words.size(); ++i) {
    options.push_back(parse_option(words[i], text));
    for (std::size_t j = 0; j + 1 < options.size(); ++j) {
      if (options[j].name == options.back().name) {
        fail(text, "option '-" + options[j].name + "' is given twice");
      }
    }
  }
  auto value_of = [&](const char* name, std::string fallback) {
    for (const Option& option : options) {
      if (option.name == name) return option.value;
    }
    return fallback;
  };

  // The CPU and its features first, whatever the order: the numbers are changes to what they imply.
  const char* generic = detail::host_arch() == Arch::Aarch64 ? "generic" : "x86-64";
  const std::string cpu = value_of("mcpu", generic);
  std::string features = value_of("mattr", "");
  check_features(features, text);
  Target target;
  if (cpu == "native") {
    target = host();
    if (!features.empty()) {
      const Target& here = host();
      if (!here.features.empty()) features = here.features + "," + features;
      const Target changed = base_target(kind, *detail::find_cpu(here.mcpu), features);
      target.features = features;
      target.vector_bytes = changed.vector_bytes;
      target.vector_registers = changed.vector_registers;
    }
  } else {
    const CpuRow* row = detail::find_cpu(cpu);
    if (row == nullptr) {
      const std::string guess = did_you_mean(cpu, known_cpus());
      fail(text, "unknown CPU '" + cpu + "'",
           guess.empty() ? "known are " + join(known_cpus()) : guess);
    }
    target = base_target(kind, *row, features);
  }
  target.triple = value_of("mtriple", target.triple);
  for (const Field& field : kFields) {
    const std::string value = value_of(field.option, "");
    if (!value.empty()) set_field(target, field, value, text);
  }
  if ((target.vector_bytes & (target.vector_bytes - 1)) != 0) {
    fail(text, "-vector=" + std::to_string(target.vector_bytes) + " is not a power of two");
  }
  return target;
}

bool Target::is_x86() const { return arch_of(*this) == Arch::X86; }
bool Target::is_aarch64() const { return arch_of(*this) == Arch::Aarch64; }

bool Target::has(std::string_view feature) const {
  const CpuRow* row = detail::find_cpu(mcpu);
  const std::vector<std::string> all =
      detail::apply_features(row != nullptr ? row->features : std::string_view(), features);
  return std::find(all.begin(), all.end(), feature) != all.end();
}

std::string to_string(const Target& target) {
  std::string text = target.kind + " -mcpu=" + target.mcpu;
  if (!target.features.empty()) text += " -mattr=" + target.features;
  const CpuRow* row = detail::find_cpu(target.mcpu);
  const Target base = row != nullptr ? base_target(target.kind, *row, target.features) : Target();
  if (target.triple != base.triple) text += " -mtriple=" + target.triple;
  for (const Field& field : kFields) {
    const std::int64_t value = field_of(target, field);
    if (value == field_of(base, field)) continue;
    text += " -" + std::string(field.option) + "=";
    const bool kilobytes = field.bytes != nullptr && value > 0 && value % 1024 == 0;
    text += kilobytes ? std::to_string(value / 1024) + "K" : std::to_string(value);
  }
  return text;
}

std::vector<std::string> known_cpus() {
  std::vector<std::string> names = {"native"};
  for (const CpuRow& row : detail::cpu_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace heddle
